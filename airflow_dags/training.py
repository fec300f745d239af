"""What Airflow runs every day to learn: train, evaluate, pass the gate, and only then make the bundle current.

Nothing is caught up with, and in a backfill everything but the newest day stops before the gate: a bundle of long ago
never takes the place of a newer one.
"""

from airflow.sdk import chain
from cohabit_commands import TRAINING
from cohabit_tasks import newest_only, schedule, tasks

with schedule("cohabit_training", "0 4 * * *", __doc__) as dag:
    task = tasks(TRAINING)
    chain(task["train"], task["evaluate"], newest_only("newest"), task["gate"], task["promote"])
