"""What Airflow runs every month: a draft of the bill, then it waits until a person has closed the month, then exports.

Closing is what a person does with the draft that they looked at. Nothing here confirms, approves or gives out anything.
Months that were missed are caught up with from COHABIT_DAGS_SINCE on, each after the one before.
"""

from airflow.sdk import chain
from cohabit_commands import APPROVED, BILLING
from cohabit_tasks import asking, schedule, tasks

with schedule("cohabit_billing", "0 6 2 * *", __doc__, catchup=True) as dag:
    task = tasks(BILLING)
    chain(task["meter"], task["judge"], task["draft"], asking("approved", APPROVED), task["export"])
