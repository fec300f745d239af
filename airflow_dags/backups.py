"""Daily DAG of backups: copies everything as it is now, then verifies the copy.

No catch-up: a backup is of the moment at which it runs.
"""

from airflow.sdk import chain
from cohabit_commands import BACKUPS
from cohabit_tasks import schedule, tasks

with schedule("cohabit_backups", "0 1 * * *", __doc__) as dag:
    chain(*tasks(BACKUPS).values())
