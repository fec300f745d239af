"""`python -m e2e.stock`: real emitters, a real Collector and Kafka, and what Cohabit makes of them.

Three web servers report by OpenTelemetry's old names, by its stable ones and by both; Redis and node_exporter are
scraped, and a kubelet's page is made of the pods' real cgroups. A neighbour comes that needs their CPU, then one that
needs memory's bandwidth, then one of them gets a CPU limit. What Kafka got in these minutes is sent to `cohabit trial`
as if it had taken hours, since a window has five minutes. Exit 1 where anything is not as it was.
"""

import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from cohabit.terminal.console import console, show_error, show_table
from e2e.kube.errors import E2eError
from e2e.stock.judging import judged
from e2e.stock.recording import record
from tests.ingest.round_actors import leave_on_signals


def main(words: Sequence[str] | None = None) -> int:
    """Run everything; the exit code."""
    parser = ArgumentParser(prog="python -m e2e.stock", description=__doc__)
    parser.add_argument("--window", type=float, default=10.0, help="seconds in which a window of five minutes passes")
    parser.add_argument("--rate", type=float, default=4.0, help="requests a second and server")
    parser.add_argument("--keep", type=Path, help="folder that stays, instead of a temporary one")
    arguments = parser.parse_args(words)
    leave_on_signals()
    try:
        if arguments.keep is not None:
            return _run(arguments.keep, arguments.window, arguments.rate)
        with tempfile.TemporaryDirectory(prefix="cohabit-e2e-stock-") as name:
            return _run(Path(name), arguments.window, arguments.rate)
    except E2eError as error:
        show_error(error)
        return 1


def _run(folder: Path, window_s: float, per_s: float) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    recorded = record(folder, window_s=window_s, per_s=per_s, say=_say)
    found = judged(folder, recorded, round(300 / window_s), _say)
    show_table(
        "real emitters", ("what", "is", "wanted", ""), [(*one[:3], "" if one.holds else "WRONG") for one in found]
    )
    return int(not all(one.holds for one in found))


def _say(line: str) -> None:
    console.print(line, markup=False, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main())
