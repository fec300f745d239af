"""What Airflow runs every day to meter: the hours of the day before, who was slowed down in them, and budgets.

Days that were missed are caught up with from COHABIT_DAGS_SINCE on, one after the other. Any day can be run again.
"""

from airflow.sdk import chain
from cohabit_commands import METERING
from cohabit_tasks import schedule, tasks

with schedule("cohabit_metering", "0 3 * * *", __doc__, catchup=True) as dag:
    chain(*tasks(METERING).values())
