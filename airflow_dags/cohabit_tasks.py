"""Schedules and tasks that run command lines, and the alert when one fails. Every DAG file builds on this.

Read from the environment of Airflow: COHABIT_DAGS_SINCE, the first day that is caught up with (nothing is when left
out), COHABIT_DAGS_RETRY_S, the wait before the first retry (300), COHABIT_DAGS_ASK_S, between questions whether a month
is closed (600).
"""

import json
import logging
import os
import shlex
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from airflow.providers.standard.operators.bash import BashOperator
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.providers.standard.operators.latest_only import LatestOnlyOperator
from airflow.providers.standard.sensors.bash import BashSensor
from airflow.sdk import DAG, Context, CronDataIntervalTimetable, TriggerRule, Variable
from cohabit_commands import LIGHT, NOT_CLOSED, Command, bash_line

SINCE = os.environ.get("COHABIT_DAGS_SINCE") or None
RETRY = timedelta(seconds=float(os.environ.get("COHABIT_DAGS_RETRY_S") or 300))
ASK_S = float(os.environ.get("COHABIT_DAGS_ASK_S") or 600)
LONGEST_RETRY = timedelta(hours=1)
PATIENCE = timedelta(weeks=3)
WEBHOOK_S = 10.0
LOOPBACK = ("127.0.0.1", "localhost", "::1")
log = logging.getLogger("cohabit")


def schedule(dag_id: str, cron: str, about: str, *, catchup: bool = False) -> DAG:
    """A DAG whose runs have intervals, which a cron string alone would not give them.

    Args:
        dag_id: its name.
        cron: when intervals end, UTC.
        about: what it does, for people, in Markdown.
        catchup: whether intervals that were missed are made up for, one after the other.
    """
    return DAG(
        dag_id,
        schedule=CronDataIntervalTimetable(cron, timezone="UTC"),
        start_date=datetime.fromisoformat(SINCE or "2026-01-01").replace(tzinfo=UTC),
        catchup=catchup and SINCE is not None,
        max_active_runs=1,
        doc_md=about,
        tags=["cohabit"],
        default_args={"owner": "cohabit", "on_failure_callback": failure_reported},
        user_defined_filters={"quote": shlex.quote},
    )


def tasks(commands: Mapping[str, Command]) -> dict[str, BashOperator]:
    """A task for each command, by its name."""
    return {name: BashOperator(task_id=name, **_how(command)) for name, command in commands.items()}


def asking(name: str, command: Command) -> BashSensor:
    """A sensor that repeats the command until it exits with 0, frees its slot between, and fails on an error."""
    return BashSensor(
        task_id=name,
        mode="reschedule",
        poke_interval=ASK_S,
        timeout=PATIENCE.total_seconds(),
        retry_exit_code=NOT_CLOSED,
        **_how(command),
    )


def newest_only(name: str) -> LatestOnlyOperator:
    """A task after which a run goes on only where no newer interval is over; one started by hand always does."""
    return LatestOnlyOperator(task_id=name, doc_md=newest_only.__doc__, pool=LIGHT, **_tries(10, 3))


def whole(name: str) -> EmptyOperator:
    """Does nothing, after all others: a run in which one of them failed has failed, whatever came after that one."""
    return EmptyOperator(task_id=name, doc_md=whole.__doc__, pool=LIGHT, **_tries(10, 1))


def _how(command: Command) -> dict[str, object]:
    return {
        "bash_command": bash_line(command.words),
        "doc_md": command.about,
        "pool": command.pool,
        "trigger_rule": TriggerRule.ALL_DONE if command.always else TriggerRule.ALL_SUCCESS,
        **_tries(command.minutes, command.retries),
    }


def _tries(minutes: int, retries: int) -> dict[str, object]:
    return {
        "execution_timeout": timedelta(minutes=minutes),
        "retries": retries,
        "retry_delay": RETRY,
        "retry_exponential_backoff": 2,
        "max_retry_delay": LONGEST_RETRY,
    }


def failure_reported(context: Context) -> None:
    """Log a task that failed after all retries, and send it to the webhook in Variable `cohabit_webhook`, if set."""
    failed = context["task_instance"]
    body = {
        "dag": failed.dag_id,
        "task": failed.task_id,
        "run": failed.run_id,
        "tries": failed.try_number,
        "error": str(context.get("exception")),
    }
    log.error("failed after all retries: %s", body)
    if url := Variable.get("cohabit_webhook", default=None):
        post(url, body)


def post(url: str, body: Mapping[str, object]) -> None:
    """Send something as JSON.

    Raises:
        ValueError: the address is neither https nor http on loopback.
        OSError: the webhook did not accept it.
    """
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in LOOPBACK):
        raise ValueError("Variable cohabit_webhook: set it to https://HOST/PATH; http is allowed on loopback only")
    request = Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})  # noqa: S310 - see above
    with urlopen(request, timeout=WEBHOOK_S):  # noqa: S310 - see above
        pass
