"""What Airflow runs every hour: features of what landed, and what follows from them.

Nothing is caught up with: features cover all that landed, so the newest hour does the work of those that were missed.
"""

from airflow.sdk import chain
from cohabit_commands import HOURLY
from cohabit_tasks import schedule, tasks, whole

with schedule("cohabit_hourly", "15 * * * *", __doc__) as dag:
    task = tasks(HOURLY)
    chain(task["skew"], task["features"], task["drift"], task["recalibrate"])
    chain(task["features"], task["outcomes"])
    chain(list(task.values()), whole("whole"))
