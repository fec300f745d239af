"""Monthly DAG: drafts the bill, waits until a person has closed the month, then exports it.

A person reviews the draft and closes the month. No task here confirms, approves or exports a plan.
Missed months are caught up from COHABIT_DAGS_SINCE on, one after the other.
"""

from airflow.sdk import chain
from cohabit_commands import APPROVED, BILLING
from cohabit_tasks import asking, schedule, tasks

with schedule("cohabit_billing", "0 6 2 * *", __doc__, catchup=True) as dag:
    task = tasks(BILLING)
    chain(task["meter"], task["judge"], task["draft"], asking("approved", APPROVED), task["export"])
