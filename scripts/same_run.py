"""A run: the whole line of a checkout, from a simulated cluster to a closed month, as people and schedulers use it.

In: a checkout and its map of names. Out: a folder with what the line wrote (`work`) and what it said (`kept`).
Commands, options, settings and routes stand here by their names from before the renaming; what is typed is translated.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from time import monotonic
from typing import Any

from same_asking import QUOTES, READ, SCORES, Asker, ask_everything, prioritize_bodies
from same_records import Names

FIXED = """
import ctypes, datetime, gc, hashlib, itertools, multiprocessing.process, os, pwd, random, time
from functools import partial
NOW_NS, SEED, USER = int(os.environ["SAME_NOW_NS"]), os.environ["SAME_SEED"], os.environ["SAME_USER"]
known = pwd.getpwuid
def drawn(draws, of, size):
    named = f"{SEED} {multiprocessing.process.current_process().name} {of} {next(draws)}".encode()
    return hashlib.shake_256(named).digest(size)
def now(cls, tz=None):
    return cls.fromtimestamp(NOW_NS // 10**9, tz)
os.urandom, random._urandom = partial(drawn, itertools.count(), "os"), partial(drawn, itertools.count(), "random")
pwd.getpwuid = lambda uid: pwd.struct_passwd((USER, *known(uid)[1:]))
time.time, time.time_ns = (lambda: NOW_NS / 1e9), (lambda: NOW_NS)
gc.get_referents(datetime.datetime.__dict__)[0]["now"] = classmethod(now)
ctypes.pythonapi.PyType_Modified(ctypes.py_object(datetime.datetime))
"""
"""A sitecustomize: the clock stands still, chance is drawn from the number of the command, and a name is given."""
SETTINGS = {
    "COHABIT_LAKE": "lake",
    "COHABIT_REGISTRY": "registry",
    "COHABIT_SNAPSHOTS": "snapshots",
    "COHABIT_STORE": "store.sqlite",
    "COHABIT_LINES": "lines",
    "COHABIT_CLUSTER": "sim",
    "COHABIT_ADVISOR__MAX_FEATURE_AGE_S": "1e9",
    "COHABIT_ADVISOR__PORT": "0",
    "COHABIT_ADVISOR__SCHEDULER_PORT": "0",
    "COHABIT_ADVISOR__CALLER_BURST": "1000000",
    "COHABIT_ADVISOR__SERVED_SHARE": "0",
    "COHABIT_ADVISOR__LOGGED_SHARE": "0",
    "COHABIT_PROPOSALS__DAILY_SHARE": "0.3",
    "COHABIT_PROPOSALS__HELD_BACK": "0",
    "COHABIT_PROPOSALS__SEARCHED": "2000",
}
SERVED: Mapping[str, Mapping[str, str]] = {
    "online": {
        "COHABIT_ADVISOR__SERVED_SHARE": "1",
        "COHABIT_ADVISOR__EXPLORE_SHARE": "0.1",
        "COHABIT_ADVISOR__WITHHELD_SHARE": "0.2",
        "COHABIT_ADVISOR__LOGGED_SHARE": "0.5",
        "COHABIT_ADVISOR__FILTER": "zero",
    },
    "stale": {"COHABIT_ADVISOR__MAX_FEATURE_AGE_S": "120"},
    "closed": {},
    "tokens": {"COHABIT_ADVISOR__ACCESS": "tokens"},
}
BILL = "pool,start,end,cost,currency\n" + "".join(
    f"{pool},2026-03-02,2026-04-01,1000,EUR\n" for pool in ("epyc-a@z0", "xeon-b@z1", "arm-c@z2")
)
# What a run types, in the names from before the renaming. `@TIME USER` sets both, `> FILE` keeps what is printed,
# `& COMMAND` goes on meanwhile, `serve NAME` starts the server with settings of SERVED and asks it; $PLAN, $DRAFT and
# $LINE are what was printed last.
STAGES = """
@2026-02-27T12:00 alice
simulate stream --nodes 6 --apps 9 --hours 4 --seed 3 --truth truth.parquet
store migrate
token create fin --role finance > fin.token
token create ops --role sre > ops.token
token create team0 --role team --team team-0 > team.token
token create gone --role admin > gone.token
token revoke gone
token list
bill propose-book > book.toml
bill propose-book book.toml
bill approve-book 2026-03
@2026-02-27T12:01 bob
bill approve-book 2026-03
bill books
bill budget --team team-0 --amount 2 --since 2026-03
@2026-03-02T04:06 alice
ingest stream
ingest stream
features
lake check --json
train --until 2026-03-02T02:00 --name first
refresh stream
victims --publish --json victims.json
victims --container c000290
propose --all
review
review $PLAN
serve online
halt incident
review $PLAN --approve all
resume
review $PLAN --approve all --seen 1
export $PLAN --as evictions --out evictions.json
export $PLAN --as migration-jobs --out jobs.json
export $PLAN --as plain --out plan.json
why $PLAN --json why.json
skew
worth --json worth.json
@2026-03-02T05:30 alice
conclude
drift
train --until 2026-03-02T03:00 --name second
models gate second
models shadow second
models promote second
recalibrate
models list
models rollback
models list
& evaluate --report report
serve stale
@2026-04-02T00:10 alice
bill import bill.csv --name march
bill meter --from 2026-03-02 --to 2026-04-01
bill judge --from 2026-03-02 --to 2026-03-03
bill publish --month 2026-05
bill draft --month 2026-03
bill closed --month 2026-03
bill close --month 2026-03
bill close --month 2026-03 --confirm $DRAFT
bill closed --month 2026-03
bill months
bill reopen --month 2026-03
bill withdraw-book 2026-03
bill statement --month 2026-03 --team team-0 --out statement.html
bill statement --month 2026-03 --team team-0 --out statement.parquet
bill statement --month 2026-03 --team team-0 --out statement.csv
bill explain $LINE
bill focus --month 2026-03 --out focus.csv
bill budgets --month 2026-03
bill quote --team team-1 --app app-004 --node node-0001 --request cpu=4 --use cpu=3 --hours 720
serve closed
serve tokens
models keys keys
metrics
audit
config show
config check
config reference --into docs
backup make backup
backup verify backup
lake expire --before 2026-03-02 --yes
lake compact --older-than 0 --grace 0
lake check --rows
"""
SHOWN: Mapping[str, str] = {
    "$PLAN": r"\bp[0-9a-f]{8}-[0-9a-f]{8}\b",
    "$DRAFT": r"\b[0-9a-f]{12}$",
    "$LINE": r"\b[0-9a-f]{12}-\d+\b",
}


@dataclass
class Run:
    """A run of a checkout's line in a folder, and what was printed so far."""

    checkout: Path
    out: Path
    names: Names
    now: str = ""
    user: str = ""
    number: int = 0
    printed: str = ""
    replies: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def work(self) -> Path:
        """Where commands run."""
        return self.out / "work"

    def environment(self, more: Mapping[str, str]) -> dict[str, str]:
        """Settings by the names of this checkout, clock, chance, and nothing of the caller's settings."""
        settings = self.names.new("setting")
        kept = {name: value for name, value in os.environ.items() if not name.startswith("COHABIT_")}
        given = {settings.get(f"{name}={value}", f"{name}={value}") for name, value in {**SETTINGS, **more}.items()}
        own = {settings.get(name, name): value for name, _, value in (one.partition("=") for one in sorted(given))}
        fixed = {
            "SAME_NOW_NS": f"{round(datetime.fromisoformat(self.now + '+00:00').timestamp())}000000000",
            "SAME_SEED": str(self.number),
            "SAME_USER": self.user,
            "PYTHONPATH": f"{self.out / 'clock'}:{self.checkout}",
            "PYTHONHASHSEED": "0",
            "COLUMNS": "300",
        }
        return kept | own | fixed

    def command(self, words: Sequence[str]) -> list[str]:
        """A command as this checkout types it."""
        module = self.names.new("module").get("cohabit", "cohabit")
        return [sys.executable, "-m", module, *self.names.typed(words)]

    def type(self, line: str) -> None:
        """Run a command; what it prints, and how it ends, is kept."""
        line, _, kept = line.partition(" > ")
        for variable in re.findall(r"\$[A-Z]+", line):
            found = re.findall(SHOWN[variable], self.printed, re.MULTILINE)
            line = line.replace(variable, found[-1] if found else "none")
        words = line.split()
        done = subprocess.run(
            self.command(words), cwd=self.work, env=self.environment({}), capture_output=True, text=True, check=False
        )
        errors = [text for text in done.stderr.splitlines() if text.startswith("error")]
        said = done.stdout.replace(str(self.out), "<out>").replace(str(self.checkout), "<checkout>")
        name = re.sub(SHOWN["$PLAN"] + r"|http\S+|\b[0-9a-f]{12}\S*", "", line).replace("/", " ")
        self.keep(f"{self.number:03d} {name}.said", "\n".join([str(done.returncode), said, *errors]))
        if kept:
            (self.work / kept).write_text(done.stdout)
        if words[:2] == ["bill", "propose-book"] and kept:
            self.begin_book(self.work / kept)
        if words[-1].endswith(".csv") and (self.work / words[-1]).exists():
            self.printed += (self.work / words[-1]).read_text()[:1000]
        self.printed += "\n" + done.stdout

    def begin_book(self, book: Path) -> None:
        """Let the example of a price book begin with the month."""
        text = book.read_text()
        for name, value in (("version", '"2026-03"'), ("start", "2026-03-01T00:00:00Z")):
            key = self.names.new("field").get(name, name)
            text = re.sub(rf"^{key} = (\"[^\"]*\"|\S+)", f"{key} = {value}", text, count=1, flags=re.MULTILINE)
        book.write_text(text)

    def keep(self, name: str, text: str) -> None:
        """A file of the record beside what the line itself wrote."""
        (self.out / "kept").mkdir(exist_ok=True)
        (self.out / "kept" / "_".join(name.split())).write_text(text)

    def serve(self, name: str) -> None:
        """Start the server, ask it everything, and stop it."""
        command, settings = self.command(["serve"]), self.environment(SERVED[name])
        with (
            (self.out / f"serve-{name}.log").open("w") as log,
            subprocess.Popen(
                command, cwd=self.work, env=settings, stdout=subprocess.PIPE, stderr=log, text=True
            ) as process,
        ):
            try:
                assert process.stdout is not None  # noqa: S101
                people, scheduler = (int(port) for port in re.findall(r"127\.0\.0\.1:(\d+)", process.stdout.readline()))
                asker = Asker({"people": people, "scheduler": scheduler}, self.names, self.work)
                asker.wait(ready=name != "stale")
                if name != "stale":
                    asker.warm()
                ask_everything(asker, name, self.plan())
                if name == "online":
                    urls = [f"http://127.0.0.1:{port}" for port in (scheduler, people)]
                    self.type(f"doctor scheduler --requests 20 --url {urls[0]} --people-url {urls[1]}")
            finally:
                process.terminate()
        self.keep(f"{self.number:03d} {name}.replies", json.dumps(asker.replies, indent=1))

    def plan(self) -> str:
        """The plan that was printed last."""
        return str(re.findall(SHOWN["$PLAN"], self.printed)[-1])

    def helps(self) -> None:
        """--help of every command that the reference lists; by old names."""
        back = {new: old for old, new in self.names.new("command").items()}
        reference = next(self.work.glob("docs/reference/*cli*.md"), None) or next(
            self.work.glob("docs/reference/c*.md")
        )
        words = [line.split()[2:] for line in reference.read_text().splitlines() if re.match(r"##+ \S+ \S+", line)]

        def one(command: list[str]) -> None:
            asked = [*self.command([])[:3], *command, "--help"]
            done = subprocess.run(
                asked, cwd=self.work, env=self.environment({}), capture_output=True, text=True, check=False
            )
            name = back.get(" ".join(command), " ".join(command))
            self.keep(f"help {name}.help", done.stdout)

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(one, [[], *words]))


def recipe() -> str:
    """A digest of what a run types and asks: kept runs of another recipe cannot be compared."""
    parts = (FIXED, SETTINGS, SERVED, BILL, STAGES, READ, SCORES, QUOTES, list(prioritize_bodies(200)))
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:8]


def run(checkout: Path, out: Path) -> None:
    """Run the whole line with the code of a checkout; everything it writes and says is in the folder."""
    for name in ("work", "clock"):
        (out / name).mkdir(parents=True)
    (out / "clock" / "sitecustomize.py").write_text(FIXED)
    (out / "work" / "bill.csv").write_text(BILL)
    renames = checkout / "docs" / "decisions" / "0057-renames.tsv"
    if renames.exists():
        shutil.copy(renames, out / "renames.tsv")
    line = Run(checkout.resolve(), out.resolve(), Names.read(renames))
    with ThreadPoolExecutor(1) as meanwhile:
        for stage in filter(None, STAGES.splitlines()):
            began = monotonic()
            if stage.startswith("@"):
                line.now, line.user = stage[1:].split()
                continue
            line.number += 1
            if stage.startswith("serve "):
                line.serve(stage.split()[1])
            elif stage.startswith("& "):
                meanwhile.submit(replace(line).type, stage[2:])
            else:
                line.type(stage)
            progress(stage, began)
    began = monotonic()
    line.helps()
    progress("--help of every command", began)
    (out / "done").touch()


def progress(what: str, began: float) -> None:
    """A line of progress."""
    sys.stderr.write(f"{monotonic() - began:6.1f} s  {what[:100]}\n")
