"""Daily DAG of retention: deletes rows older than the days in Variables.

No catch-up: the newest day deletes the rows of missed days too.
"""

from airflow.sdk import chain
from cohabit_commands import RETENTION
from cohabit_tasks import schedule, tasks

with schedule("cohabit_retention", "30 5 * * *", __doc__) as dag:
    chain(*tasks(RETENTION).values())
