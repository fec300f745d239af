"""Reading: what Airflow makes of a folder of DAGs, as JSON. Run by the Python of Airflow's own environment.

    AIRFLOW_HOME=EMPTY python -P reading.py FOLDER

Each line for bash is filled in for the interval of 2 to 3 March 2026, by Airflow's own template engine.
"""

import json
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from airflow.dag_processing.dagbag import BundleDagBag
from airflow.sdk import DAG, BaseOperator

START, END = datetime(2026, 3, 2, 3, tzinfo=UTC), datetime(2026, 3, 3, 3, tzinfo=UTC)


class Variables:
    """Variables in a template: each says its own name, those with a default that."""

    def __getattr__(self, name: str) -> str:
        return f"/{name} of 'ours'"

    def get(self, _name: str, default: str) -> str:
        """The default."""
        return default


def main(folder: str) -> None:
    """Print what there is."""
    bag = BundleDagBag(folder, bundle_path=Path(folder), bundle_name="cohabit")
    told = {
        "errors": {Path(path).name: error for path, error in bag.import_errors.items()},
        "dags": {name: _dag(dag) for name, dag in bag.dags.items()},
    }
    print(json.dumps(told))  # noqa: T201 - that is what it is for


def _dag(dag: DAG) -> dict[str, object]:
    dag.check_cycle()
    return {
        "schedule": type(dag.timetable).__name__,
        "catchup": dag.catchup,
        "max_active_runs": dag.max_active_runs,
        "start": dag.start_date.isoformat(),
        "doc": dag.doc_md,
        "tags": sorted(dag.tags),
        "tasks": {task.task_id: _task(dag, task) for task in dag.tasks},
    }


def _task(dag: DAG, task: BaseOperator) -> dict[str, object]:
    line = getattr(task, "bash_command", None)
    context: Mapping[str, object] = {
        "data_interval_start": START,
        "data_interval_end": END,
        "var": {"value": Variables()},
    }
    return {
        "kind": type(task).__name__,
        "mode": getattr(task, "mode", None),
        "waits_for": getattr(task, "retry_exit_code", None),
        "owner": task.owner,
        "retries": task.retries,
        "retry_growth": task.retry_exponential_backoff,
        "timeout_s": task.execution_timeout.total_seconds() if task.execution_timeout else None,
        "pool": task.pool,
        "rule": str(task.trigger_rule.value),
        "doc": task.doc_md,
        "told": bool(task.on_failure_callback),
        "after": sorted(task.upstream_task_ids),
        "line": line and dag.get_template_env().from_string(line).render(context),
    }


if __name__ == "__main__":
    main(sys.argv[1])
