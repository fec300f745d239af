"""What Airflow runs every day to back up: a copy of everything as it is now, then all of it read.

Nothing is caught up with: a backup is of the moment in which it is made.
"""

from airflow.sdk import chain
from cohabit_commands import BACKUPS
from cohabit_tasks import schedule, tasks

with schedule("cohabit_backups", "0 1 * * *", __doc__) as dag:
    chain(*tasks(BACKUPS).values())
