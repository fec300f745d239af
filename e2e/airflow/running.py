"""Running: an Airflow of its own for each site, DAG by DAG, and what came of every task. An edge."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from time import monotonic
from typing import Any

from e2e.airflow.errors import CommandFailed
from e2e.airflow.site import ROOT, Site

VENV = ROOT / ".venv-airflow"
DAGS = ROOT / "airflow_dags"
RETRY_S, ASK_S = "1", "2"
HOME, DATABASE = "airflow", "airflow.db"
NEWEST = "select run_id, state from dag_run where dag_id = ? order by id desc limit 1"
INSTANCES = """
select task_id, state, try_number, start_date, end_date from task_instance
where dag_id = ? and run_id = ? order by start_date"""


@dataclass(frozen=True, slots=True)
class Task:
    """What came of a task: its state, how often it was tried, and the seconds of the last try."""

    name: str
    state: str
    tries: int
    seconds: float

    def __str__(self) -> str:
        again = f", try {self.tries}" if self.tries > 1 else ""
        bad = "" if self.state == "success" else f" {self.state.upper()}"
        return f"{self.name} {self.seconds:.1f} s{again}{bad}"


@dataclass(frozen=True, slots=True)
class Ran:
    """A run of a DAG.

    Args:
        dag: its name.
        state: of the run.
        seconds: from the start of the program to its end.
        tasks: in the order in which they began.
        log: what was printed.
    """

    dag: str
    state: str
    seconds: float
    tasks: tuple[Task, ...]
    log: Path

    @property
    def well(self) -> bool:
        """Whether it succeeded, and all of its tasks did."""
        return self.state == "success" and all(task.state == "success" for task in self.tasks)

    def task(self, name: str) -> Task:
        """One of them."""
        return next(task for task in self.tasks if task.name == name)


def installed() -> None:
    """Airflow is there, in the environment of its own.

    Raises:
        CommandFailed: it could not be installed.
    """
    _checked([ROOT / "scripts" / "locked_environment.sh", sys.executable, VENV, "airflow"], None)


def prepared(site: Site) -> None:
    """A database for a site's Airflow, with the pools."""
    _airflow(site, "db", "migrate")
    _airflow(site, "pools", "import", str(DAGS / "pools.json"))


def environment(site: Site, more: Mapping[str, str] = {}) -> dict[str, str]:
    """Of a site's Airflow; variables with AIRFLOW_VAR_ are its Variables."""
    return site.settings | {
        "AIRFLOW_HOME": str(site.folder / HOME),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{site.folder / HOME / DATABASE}",
        "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW_VAR_COHABIT_BACKUPS": str(site.folder / "back ups"),
        "AIRFLOW_VAR_COHABIT_REPORTS": str(site.folder / "it's reports"),
        "AIRFLOW_VAR_COHABIT_MOST_ROWS": "3000",
        "AIRFLOW_VAR_COHABIT_SEARCH_CANDIDATES": "1",
        "COHABIT_DAGS_RETRY_S": RETRY_S,
        "COHABIT_DAGS_ASK_S": ASK_S,
        **more,
    }


def run(site: Site, dag: str, at: str, more: Mapping[str, str] = {}) -> Ran:
    """Run a DAG to its end, for the newest interval that was over at a time."""
    log, began = site.folder / f"{dag}-{at}.log", monotonic()
    with log.open("w") as out:
        subprocess.run(
            [VENV / "bin" / "airflow", "dags", "test", dag, at],
            env=environment(site, more), cwd=site.folder, stdout=out, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip
    return _told(site, dag, monotonic() - began, log)


def _told(site: Site, dag: str, seconds: float, log: Path) -> Ran:
    database = site.folder / HOME / DATABASE
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        run_id, state = connection.execute(NEWEST, (dag,)).fetchone() or ("", "none")
        rows = connection.execute(INSTANCES, (dag, run_id)).fetchall()
    tasks = tuple(Task(name, str(was), tries, _between(start, end)) for name, was, tries, start, end in rows)
    return Ran(dag, state, seconds, tasks, log)


def _between(start: str | None, end: str | None) -> float:
    if start is None or end is None:
        return 0.0
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()


def read(home: Path, more: Mapping[str, str]) -> dict[str, Any]:
    """What Airflow makes of the DAGs, see e2e/airflow/reading.py; without a database.

    Raises:
        CommandFailed: it cannot read them.
    """
    own = {"AIRFLOW_HOME": str(home), "AIRFLOW__CORE__LOAD_EXAMPLES": "False", "PATH": os.environ["PATH"], **more}
    told = _checked([VENV / "bin" / "python", "-P", ROOT / "e2e" / "airflow" / "reading.py", DAGS], own)
    found: dict[str, Any] = json.loads(told.splitlines()[-1])
    return found


def _airflow(site: Site, *words: str) -> None:
    _checked([VENV / "bin" / "airflow", *words], environment(site))


def _checked(command: list[str | Path], env: Mapping[str, str] | None) -> str:
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CommandFailed(command, done.stdout + done.stderr)
    return done.stdout


def forget(site: Site) -> None:
    """Remove a site."""
    shutil.rmtree(site.folder)
