"""A site: lake, store, registry and lines of a small simulated cluster, and commands that run there. An edge."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from time import monotonic, sleep
from urllib.request import Request, urlopen

from advisor.auth.audit_log import Entry
from advisor.billing.ledger import price_book_store as book_store
from advisor.billing.pricing.price_book_toml import EXAMPLE
from advisor.database.engine import open_store
from cohabit.billing.metering import pools_described
from cohabit.billing.price_book_file import read_price_book
from e2e.airflow.errors import CommandFailed, NeverCame
from features.schema.tables import TABLES
from ingest.lake.tables import Lake

ROOT = Path(__file__).parents[2]
CLUSTER = "sim"
NODES, APPS, HOURS = 8, 9, 26
"""Of four nodes there is too little to choose: a model costs more than load there, and drift rightly says so."""
FIRST_DAY_END_MS = 1_772_496_000_000
"""The simulated cluster begins on 2 March 2026; what arrives after midnight is landed later."""
MONTH_US = 1_772_323_200_000_000
"""2026-03-01."""
LIMIT_S, POLL_S = 600.0, 0.1
ADDRESSES = re.compile(r"people and tools: (http://\S+)\s+schedulers: (http://\S+)/extender")
POD = b'{"Pod": {"metadata": {"name": "x", "labels": {"app": "app-000"}}}, "Nodes": null, "NodeNames": ["node-0000"]}'


@dataclass(frozen=True)
class Site:
    """A folder with everything of one installation."""

    folder: Path

    @property
    def settings(self) -> dict[str, str]:
        """The environment of commands and of Airflow there."""
        folder = self.folder
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("COHABIT_", "AIRFLOW"))}
        return kept | {
            "COHABIT_BIN": str(folder / "bin"),
            "COHABIT_CLUSTER": CLUSTER,
            "COHABIT_DRIFT__MAX_AGE_DAYS": "3650",  # the simulated days are long past
            "COHABIT_LAKE": str(folder / "lake"),
            "COHABIT_BILLING__LEDGER_DIR": str(folder / "lines"),
            "COHABIT_REGISTRY": str(folder / "registry"),
            "COHABIT_SNAPSHOTS": str(folder / "snapshots"),
            "COHABIT_DATABASE": str(folder / "store.sqlite"),
            "OMP_NUM_THREADS": "1",
        }

    @property
    def lake(self) -> Lake:
        """Its lake."""
        return Lake.open(self.folder / "lake", TABLES)

    def run(self, *words: str, code: int | None = 0) -> str:
        """What a command printed.

        Raises:
            CommandFailed: it ended with another exit code than this one.
        """
        done = subprocess.run(
            [self.folder / "bin" / "cohabit", *words],
            env=self.settings, cwd=self.folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if code is not None and done.returncode != code:
            raise CommandFailed(["cohabit", *words], done.stdout + done.stderr)
        return done.stdout

    def copy(self, name: str) -> "Site":
        """The same beside it."""
        shutil.copytree(self.folder, folder := self.folder.with_name(name))
        _write_program(folder)
        return Site(folder)


def until(what: str, holds: Callable[[], object], limit_s: float = LIMIT_S) -> None:
    """Wait until something holds.

    Raises:
        NeverCame: it took too long.
    """
    deadline = monotonic() + limit_s
    while not holds():
        if monotonic() > deadline:
            raise NeverCame(what, limit_s)
        sleep(POLL_S)


def made(folder: Path) -> Site:
    """A site where the first day was landed and its features computed, with a price book and what the pools cost."""
    site = Site(folder)
    folder.mkdir(parents=True)
    _write_program(folder)
    whole, stream = folder / "whole", folder / "stream"
    site.run("dev", "simulate", str(whole), "--nodes", str(NODES), "--apps", str(APPS), "--hours", str(HOURS))
    stream.mkdir()
    for path in whole.glob("*.log"):
        with path.open("rb") as lines:  # some of them are broken, as a real cluster's
            (stream / path.name).write_bytes(b"".join(line for line in lines if _arrived_ms(line) < FIRST_DAY_END_MS))
    site.run("ingest", str(stream))
    site.run("features")
    site.run("admin", "database", "migrate")
    _price(site)
    return site


def land_the_rest(site: Site) -> None:
    """What arrived on the second day lands too."""
    for path in (site.folder / "whole").glob("*.log"):
        shutil.copy(path, site.folder / "stream" / path.name)
    site.run("ingest", str(site.folder / "stream"))


def serve_a_little(site: Site, requests: int = 20) -> None:
    """Scores are asked for, so that there are vectors to compare."""
    site.run("refresh", str(site.folder / "stream"))
    more = {"COHABIT_ADVISOR__FEATURE_LOG_SHARE": "1", "COHABIT_ADVISOR__MAX_FEATURE_AGE_S": "1e9"}
    with _serving(site, site.settings | more) as url:
        for _ in range(requests):
            ask = Request(f"{url}/extender/prioritize", POD, {"Content-Type": "application/json"})  # noqa: S310 - loopback
            with urlopen(ask, timeout=10) as reply:  # noqa: S310 - loopback
                reply.read()
        kept = site.folder / "snapshots" / "served"
        until("served features", lambda: any(path.stat().st_size for path in kept.glob("*")), 30.0)


@contextmanager
def closed_by_a_person(site: Site, month: str) -> Iterator[Event]:
    """Within the block somebody looks at the month's draft, once it is there, and closes the month; set when done."""
    from threading import Thread

    done, over = Event(), Event()

    def person() -> None:
        while not over.wait(POLL_S * 10):
            told = site.run("bill", "closed", "--month", month, code=None)
            if found := re.search(r"--confirm (\w+)", told):
                over.wait(ASKED_FIRST_S)
                site.run("bill", "close", "--month", month, "--confirm", found[1])
                done.set()
                return

    thread = Thread(target=person)
    thread.start()
    try:
        yield done
    finally:
        over.set()
        thread.join()


ASKED_FIRST_S = 8.0
"""So long a person looks at a draft here, so that the sensor has to ask again."""


def _write_program(folder: Path) -> None:
    program = folder / "bin" / "cohabit"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m cohabit "$@"\n')
    program.chmod(0o755)


def _arrived_ms(line: bytes) -> int:
    return int(line.removeprefix(b"CreateTime:").partition(b"\t")[0])


def _price(site: Site) -> None:
    """Ann proposes a price book and Bob approves it; a bill says what each pool costs."""
    file = site.folder / "book.toml"
    text = re.sub(r"^version = .*$", 'version = "2026-03"', EXAMPLE, flags=re.MULTILINE)
    file.write_text(re.sub(r"^start = .*$", "start = 2026-03-01T00:00:00Z", text, flags=re.MULTILINE))
    book = read_price_book(file, "ann")
    with open_store(site.settings["COHABIT_DATABASE"]) as store:
        book_store.propose(store, book, MONTH_US, Entry(MONTH_US, "ann", "finance", "propose", "", "done", "1"))
        entry = Entry(MONTH_US, "bob", "finance", "approve", "", "done", "2")
        book_store.approve(store, book.version, "bob", MONTH_US, entry)
    bill = site.folder / "bill.csv"
    rows = (f"{pool},2026-03-02,2026-04-01,1000,EUR" for pool in pools_described(site.lake, CLUSTER))
    bill.write_text("\n".join(("pool,start,end,cost,currency", *rows)) + "\n")
    site.run("bill", "import", str(bill), "--name", "march")


@contextmanager
def _serving(site: Site, env: dict[str, str]) -> Iterator[str]:
    """Address for schedulers of a `cohabit serve`, which ends with the block."""
    log = site.folder / "serve.log"
    command: Sequence[str | Path] = [site.folder / "bin" / "cohabit", "serve", "--port", "0", "--scheduler-port", "0"]
    with (
        log.open("w") as out,
        subprocess.Popen(command, env=env | {"COLUMNS": "300"}, stdout=out, stderr=out) as process,
    ):
        try:
            until("addresses of `cohabit serve`", lambda: ADDRESSES.search(log.read_text()), 60.0)
            found = ADDRESSES.search(log.read_text())
            assert found is not None  # noqa: S101 - it was just there
            yield found[2]
        finally:
            process.terminate()
