"""What Airflow runs every day to let old rows go, after as many days as Variables say.

Nothing is caught up with: the newest day lets go what those before it would have.
"""

from airflow.sdk import chain
from cohabit_commands import RETENTION
from cohabit_tasks import schedule, tasks

with schedule("cohabit_retention", "30 5 * * *", __doc__) as dag:
    chain(*tasks(RETENTION).values())
