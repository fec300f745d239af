"""`python -m e2e.s3`: crash rounds of landing into a bucket, or the whole line on one, by a server of this machine.

Exit 1 where a row is lost or doubled, where a process ends without a reason, where a control breaks no law, or where a
table in the bucket is not as in a folder.
"""

import sys
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

from cohabit.terminal.console import console, show_error
from e2e.kube.errors import E2eError
from e2e.s3.line import compared
from e2e.s3.servers import PROGRAMS, Server, known, serving
from ingest.devkafka.broker import running_broker
from tests.ingest.round_actors import leave_on_signals
from tests.ingest.rounds import LEAST, Rules, parser, play_rounds, verdict

ROUNDS = 50


def main(words: Sequence[str] | None = None) -> int:
    """Run everything; the exit code."""
    arguments = _parser().parse_args(words)
    leave_on_signals()
    try:
        with tempfile.TemporaryDirectory(prefix="cohabit-e2e-s3-") as name:
            folder = Path(name)
            with serving(arguments.server, folder / "server", _say) as server, known(server):
                return (_line if arguments.line else _rounds)(arguments, server, folder)
    except E2eError as error:
        show_error(error)
        return 1


def _rounds(arguments: Namespace, server: Server, folder: Path) -> int:
    rules = Rules(server.bucket, LEAST, careless=arguments.control)
    with running_broker(folder / "kafka") as broker:
        outcomes = play_rounds(arguments.rounds, arguments.seed, broker, folder / "rounds", say=_say, rules=rules)
    return verdict(outcomes, rules, _say)


def _line(_arguments: Namespace, server: Server, folder: Path) -> int:
    return compared(server.bucket, folder / "line", _say)


def _say(line: str) -> None:
    console.print(line, markup=False, highlight=False, soft_wrap=True)


def _parser() -> ArgumentParser:
    options = parser("the lake in a bucket, by an S3 server of this machine", ROUNDS)
    options.prog = "python -m e2e.s3"
    options.add_argument("--server", choices=sorted(PROGRAMS), default="gofakes3", help="serves the bucket")
    options.add_argument("--line", action="store_true", help="run the whole line instead of rounds")
    return options


if __name__ == "__main__":
    sys.exit(main())
