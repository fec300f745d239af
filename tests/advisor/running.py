"""A running `cohabit serve` over a folder, and what a refresher and a trainer publish there."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic, time_ns
from urllib.request import urlopen

from advisor.cluster.snapshot import publish
from models.registry.registry import Registry
from tests.advisor.clusters import snapshot, trained, write


@dataclass(frozen=True)
class Running:
    """Its process, and its two addresses: for people, for schedulers."""

    process: "subprocess.Popen[str]"
    main: str
    scheduler: str

    def stop(self) -> int:
        """End it; its exit code."""
        self.process.terminate()
        return self.process.wait(timeout=8)

    def peak_mib(self) -> float:
        """The most memory that it ever had."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) / 1024


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, str]]:
    """Its two addresses: for people, for schedulers."""
    with running(folder) as found:
        yield found.main, found.scheduler


@contextmanager
def running(folder: Path, *words: str) -> Iterator[Running]:
    """`cohabit serve` over a folder, ended with the block; of options that are given twice the last counts."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("COHABIT_")}
    folders = {f"COHABIT_{name.upper()}": str(folder / name) for name in ("registry", "snapshots")}
    command = [sys.executable, "-m", "cohabit", "serve", "--port", "0", "--scheduler-port", "0", *words]
    settings = {**kept, **folders, "COLUMNS": "200"}
    with subprocess.Popen(command, env=settings, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            main, scheduler = re.findall(r"http://[\d.:]+", process.stdout.readline())
            yield Running(process, main, scheduler)
        finally:
            process.terminate()


def fill(folder: Path) -> None:
    """A bundle, and a snapshot of this moment."""
    write(trained(), folder / "registry" / "one")
    Registry(folder / "registry").promote("one")
    publish(folder / "snapshots", replace(snapshot(11, missing=0.0), as_of_us=time_ns() // 1000))


ASKED = b'{"Pod": {"metadata": {"labels": {"app": "web"}}}, "NodeNames": ["n0", "n1"]}'


def until_ready(main: str, scheduler: str) -> None:
    """Wait until the table answers, for an app that it knows too: from then on nothing depends on how busy we are."""
    deadline = monotonic() + 120
    while monotonic() < deadline:
        with urlopen(f"{scheduler}/extender/prioritize", ASKED, timeout=5):  # noqa: S310
            pass
        with urlopen(f"{main}/metrics", timeout=5) as reply:  # noqa: S310
            if b'source="table"' in reply.read():
                return
    raise TimeoutError("the table does not answer after two minutes")
