"""The demo for capacity planners: a growing cluster, then the commands that a planner types, and their page."""

import json
import os
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter, time_ns
from typing import TYPE_CHECKING

from cohabit.capacity.growing_site import CLUSTER, write_growing_site
from cohabit.cli.operate.serve import new_id, source_of
from cohabit.config.errors import CohabitError
from cohabit.config.settings import read_settings
from cohabit.terminal.console import console
from features.schema.tables import TABLES
from ingest.lake.tables import Lake

if TYPE_CHECKING:
    from typer._click import Command

    from cohabit.server.main import Listening

WEEKS = 12
OFFERS = ("std-64 64x256Gi,64000,262144,0,1,25,600,1,16800,36,60,1",)
"""What could be bought and is not in the fleet, a line of skus.csv."""
LEAD_DAYS = 45
FILES = "--skus skus.csv --racks racks.csv --fleet fleet.csv --demand demand.csv"
COMMANDS = (
    "capacity forecast --horizon 12w --publish",
    "capacity inputs --out . --months 4",
    f"capacity plan {FILES} --order-from {{today}} --seconds 20 --publish --currency EUR",
    f"capacity what-if {FILES} --apps apps.csv --order-from {{today}} --change grow:web:30 --change lose:a "
    "--seconds 15 --publish --currency EUR",
)
FOUND = 1
"""Exit code of a command that found something, as pods without a place."""


def run_capacity_demo(cohabit: "Command", *, leave: bool) -> None:
    """See `cohabit demo --capacity`; `cohabit` is the program itself."""
    with tempfile.TemporaryDirectory(prefix="cohabit-demo-") as name, _at_home_in(Path(name)) as folder:
        seconds = dict[str, float]()
        end = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
        nodes, pods = write_growing_site(Lake.open(folder / "lake", TABLES), end, WEEKS)
        console.print(f"{WEEKS} weeks of metered hours until {end:%Y-%m-%d %H:%M} UTC; {nodes} nodes, {pods} pods")
        for line in (one.format(today=f"{end:%Y-%m-%d}") for one in COMMANDS):
            console.print(f"\n$ cohabit {line}", style="bold", soft_wrap=True)
            started = perf_counter()
            _run(cohabit, line)
            seconds[" ".join(line.split()[:2])] = round(perf_counter() - started, 2)
            if line.startswith("capacity inputs"):
                _fill_in(folder / "skus.csv")
        _serve(folder, seconds, leave=leave)


def _run(cohabit: "Command", line: str) -> None:
    """As a shell does.

    Raises:
        CohabitError: it failed.
    """
    code = cohabit.main(line.split(), prog_name="cohabit", standalone_mode=False)
    if code not in (None, 0, FOUND):
        raise CohabitError(f"cohabit {line} ended with {code}")


def _fill_in(skus: Path) -> None:
    """What a planner fills in: how long a delivery takes, and what else could be bought."""
    header, *lines = skus.read_text().splitlines()
    at = header.split(",").index("lead_days")
    rows = [line.split(",") for line in lines]
    filled = [",".join([*row[:at], str(LEAD_DAYS), *row[at + 1 :]]) for row in rows]
    skus.write_text("\n".join([header, *filled, *OFFERS]) + "\n")
    console.print(f"filled in: deliveries take {LEAD_DAYS} days, and {OFFERS[0].split(',')[0]} can be had in 60")


@contextmanager
def _at_home_in(folder: Path) -> Iterator[Path]:
    """Commands find lake and snapshots in a folder, and write their files there."""
    before, home = dict(os.environ), Path.cwd()
    os.environ.update(
        COHABIT_LAKE=str(folder / "lake"), COHABIT_SNAPSHOTS=str(folder / "snapshots"), COHABIT_CLUSTER=CLUSTER
    )
    os.chdir(folder)
    try:
        yield folder
    finally:
        os.chdir(home)
        os.environ.clear()
        os.environ.update(before)


def _serve(folder: Path, seconds: dict[str, float], *, leave: bool) -> None:
    from advisor.ui.site.identity import OpenEntrance
    from cohabit.cli.admin.token import local_name
    from cohabit.server.main import Front, SchedulerListener, run
    from cohabit.server.sockets import PORTS_TRIED

    settings = read_settings(os.environ)
    source = source_of(settings, folder / "registry", folder / "snapshots")
    serving = source.opened(lambda: time_ns() // 1000)

    def ready(listening: "Listening") -> bool:
        with urllib.request.urlopen(f"{listening.main}/v1/capacity/purchases", timeout=30) as reply:  # noqa: S310
            orders = json.load(reply)["orders"]
        console.print(
            f"\nthe page has {len(orders)} orders: {listening.main}/ui/capacity", style="bold", soft_wrap=True
        )
        total = round(sum(seconds.values()), 2)
        found = {"stage_seconds": seconds, "total_seconds": total, "orders": len(orders)}
        sys.stdout.write(json.dumps(found) + "\n")
        if not leave:
            console.print("Ctrl-C ends the demo")
        return not leave

    run(
        serving,
        source,
        Front(settings.advisor.port, OpenEntrance(local_name(), serving.now_us, new_id)),
        SchedulerListener(settings.advisor.scheduler_port, PORTS_TRIED),
        ready=ready,
    )
