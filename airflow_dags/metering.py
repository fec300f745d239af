"""Daily DAG of metering: hours of the day before, slowed containers in them, and budgets.

Missed days are caught up from COHABIT_DAGS_SINCE on, one after the other. Any day can be rerun.
"""

from airflow.sdk import chain
from cohabit_commands import METERING
from cohabit_tasks import schedule, tasks

with schedule("cohabit_metering", "0 3 * * *", __doc__, catchup=True) as dag:
    chain(*tasks(METERING).values())
