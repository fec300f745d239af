"""What Airflow runs every week: a search for settings of the trainer that beat the default.

Nothing is caught up with: it looks at all rows there are.
"""

from cohabit_commands import SEARCHING
from cohabit_tasks import schedule, tasks

with schedule("cohabit_searching", "0 6 * * 0", __doc__) as dag:
    tasks(SEARCHING)
