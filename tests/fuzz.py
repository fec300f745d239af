"""Fuzz: everything that reads input from outside is fed broken input, and nothing but errors of ours may come out.

`python -m tests.fuzz --minutes 30 --seed 1` goes round all targets until the time is over, each as long as the others;
`--target NAME` takes some, and `--repeat HEX`, or a file that holds it, feeds one input again. Exit 1 where anything
else came out, an input took longer than attempt.MAX_S of the processor, or more memory than attempt.MAX_MIB.
"""

import logging
import os
import resource
import signal
import sys
import tomllib
import warnings
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from tests.fuzzing.attempt import Crash
    from tests.fuzzing.target import Target

ROOT = Path(__file__).parents[1]
TURN_S = 1.0
"""A target's turn."""
REPORT_S = 60.0
MAX_BYTES = 6 << 30
"""Beyond which an allocation fails, and is told, before the machine suffers."""
MAX_SHOWN = 4000
"""Hexadecimal digits of an input that are printed; longer ones go to a file."""


@dataclass
class Tally:
    """What became of the inputs of one target."""

    target: "Target"
    inputs: Iterator[bytes]
    found: Counter[str] = field(default_factory=Counter)
    crashes: Counter[str] = field(default_factory=Counter)

    @property
    def tried(self) -> int:
        return self.found.total() + self.crashes.total()

    def line(self) -> str:
        """In words."""
        counts = ", ".join(f"{name} {count:,}" for name, count in self.found.most_common())
        return f"{self.target.name:<30} {self.tried:>9,} inputs, {self.crashes.total()} crashes; {counts}"


def fuzz(targets: Collection["Target"], minutes: float, seed: int, last: Path) -> bool:
    """Go round the targets until the time is over; whether nothing crashed.

    Args:
        targets: each with its own turn.
        minutes: for all of them.
        seed: of what is fed.
        last: a file that holds the target and the input at hand, for whoever finds this process dead.
    """
    from tests.fuzzing.attempt import broken_inputs

    tallies = [Tally(target, broken_inputs(target, seed)) for target in targets]
    start_s = said_s = monotonic()
    for tally in cycle(tallies):
        _turn(tally, seed, last)
        now_s = monotonic()
        over = now_s - start_s > 60 * minutes
        if over or now_s - said_s > REPORT_S:
            said_s = now_s
            _say(f"\n{'in the end' if over else 'so far'}, after {(now_s - start_s) / 60:.1f} minutes, seed {seed}:")
            for one in tallies:
                _say(one.line())
        if over:
            break
    kinds = sum(len(one.crashes) for one in tallies)
    _say(f"\n{sum(one.tried for one in tallies):,} inputs, {len(tallies)} targets, {kinds} kinds of crashes")
    return not kinds


def _turn(tally: Tally, seed: int, last: Path) -> None:
    from tests.fuzzing.attempt import Crash, attempt

    until_s = monotonic() + TURN_S
    while monotonic() < until_s:
        told = next(tally.inputs)
        last.write_bytes(tally.target.name.encode() + b"\n" + told)
        found = attempt(tally.target, told)
        if not isinstance(found, Crash):
            tally.found[found] += 1
            continue
        if found.where not in tally.crashes:
            _tell(tally.target.name, found, seed)
        tally.crashes[found.where] += 1


def _tell(name: str, crash: "Crash", seed: int) -> None:
    """Say what crashed and how to see it again."""
    shown = crash.told.hex()
    if len(shown) > MAX_SHOWN:
        path = Path(f"fuzz-{sha256(crash.told).hexdigest()[:12]}.hex")
        path.write_text(shown)
        shown = str(path)
    _say(f"\nCRASH of {name} (seed {seed}): {crash.what}\n{crash.trace}")
    _say(f"again: python -m tests.fuzz --target '{name}' --repeat {shown}")


def repeat(target: "Target", told: str) -> bool:
    """Feed one input again, in hexadecimal digits or a file of them; whether it does not crash."""
    from tests.fuzzing.attempt import Crash, attempt

    found = attempt(target, bytes.fromhex(Path(told).read_text() if told.endswith(".hex") else told))
    _say(f"{found.what}\n{found.trace}" if isinstance(found, Crash) else found)
    return not isinstance(found, Crash)


def _say(what: str) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


def _asked() -> Namespace:
    parser = ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--target", action="append", help="its name; repeatable")
    parser.add_argument("--repeat", metavar="HEX", help="an input to feed to the target again")
    return parser.parse_args()


def _run(asked: Namespace, folder: Path, left: Collection[str], minutes: float) -> bool:
    """Do what is asked in this process, but for the targets that are left out."""
    import structlog

    from tests.fuzzing.targets import all_targets

    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    logging.disable()
    resource.setrlimit(resource.RLIMIT_DATA, (MAX_BYTES, MAX_BYTES))
    warnings.simplefilter("error")
    targets = all_targets(folder / "work")
    if unknown := set(asked.target or ()) - targets.keys():
        sys.exit(f"no target is called {unknown.pop()}; there are {', '.join(targets)}")
    chosen = [one for name, one in targets.items() if name not in left and (not asked.target or name in asked.target)]
    if asked.repeat is not None:
        return repeat(chosen[0], asked.repeat)
    return fuzz(chosen, minutes, asked.seed, folder / "last")


def main() -> bool:
    """Do what is asked in a process of its own, and in another one where that dies; whether all is well."""
    from tests.fuzzing.attempt import Crash
    from tests.fuzzing.target import in_memory

    asked, until_s, dead = _asked(), monotonic(), list[str]()
    until_s += 60 * asked.minutes
    while True:
        with TemporaryDirectory(dir=in_memory()) as made:
            folder = Path(made)
            child = os.fork()
            if not child:
                _end(_run(asked, folder, dead, (until_s - monotonic()) / 60))
            _, status = os.waitpid(child, 0)
            if not os.WIFSIGNALED(status):
                return os.waitstatus_to_exitcode(status) == 0 and not dead
            name, _, told = (folder / "last").read_bytes().partition(b"\n")
            what = f"killed by {signal.Signals(os.WTERMSIG(status)).name}; the others go on without it"
            _tell(name.decode(), Crash(told, what, "", ""), asked.seed)
            dead.append(name.decode())
            if asked.repeat is not None or monotonic() > until_s or [*dead] == asked.target:
                return False


def _end(fine: bool) -> NoReturn:  # noqa: FBT001 - as it is passed on
    """End this process without what the one that forked it would clean up."""
    sys.stdout.flush()
    os._exit(not fine)


def _find_modules() -> None:
    """As pytest finds them."""
    ini = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    sys.path[:0] = [str(ROOT), *(str(ROOT / path) for path in ini["pythonpath"])]


if __name__ == "__main__":
    _find_modules()
    sys.exit(not main())
