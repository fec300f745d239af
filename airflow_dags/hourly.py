"""Hourly DAG: features of ingested rows, and the tasks that depend on them.

No catch-up: features cover all ingested rows, so the newest hour does the work of missed ones.
"""

from airflow.sdk import chain
from cohabit_commands import HOURLY
from cohabit_tasks import schedule, tasks, whole

with schedule("cohabit_hourly", "15 * * * *", __doc__) as dag:
    task = tasks(HOURLY)
    chain(task["skew"], task["features"], task["drift"], task["recalibrate"])
    chain(task["features"], task["outcomes"])
    chain(list(task.values()), whole("whole"))
