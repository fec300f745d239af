"""Attempts: one input fed to one target, within bounds of time and memory, and what became of it."""

import random
import resource
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import process_time
from types import FrameType

from tests.fuzzing.target import Target
from tests.ingest.mutate import TEXT_MUTATIONS, nest

MAX_S = 5.0
"""One input may take of the processor, whatever else the machine does meanwhile."""
MAX_WAITED_S = 60.0
"""One input may take by the clock."""
MAX_MIB = 256
"""One input may take beyond what was taken before."""
ACCEPTED = "accepted"


class TooSlow(BaseException):
    """An input takes longer than MAX_S or MAX_WAITED_S; no error of a kind that anybody would catch."""


class TooMuch(Exception):
    """An input took more memory than MAX_MIB."""


@dataclass(frozen=True)
class Crash:
    """What came out and should not.

    Args:
        told: the input.
        what: the error in a line.
        where: the innermost lines of code that it came through; crashes are told apart by it.
        trace: all of it.
    """

    told: bytes
    what: str
    where: str
    trace: str


def broken_inputs(target: Target, seed: int) -> Iterator[bytes]:
    """Inputs without end, one in twenty a good one: the same for the same target and seed."""
    rng = random.Random(f"{target.name} {seed}")
    while True:
        told = rng.choice(target.good)
        head, line, content = told.partition(b"\n") if target.in_files else (b"", b"", told)
        chosen = [rng.choice(TEXT_MUTATIONS) for _ in range(rng.choice((0, *(1,) * 14, 2, 2, 2, 3, 3)))]
        for mutate in sorted(
            chosen, key=lambda one: one is nest
        ):  # the last one: what is deep is not taken apart again
            content = mutate(content, rng)
        yield head + line + content


def attempt(target: Target, told: bytes) -> str | Crash:
    """ACCEPTED, the name of the error it was refused with, or a crash."""
    before_mib, since_s = _peak_mib(), process_time()
    found = ACCEPTED
    try:
        with _limited():
            target.read(told)
    except target.refuses as error:
        found = type(error).__name__
    except (Exception, TooSlow, SystemExit) as error:  # noqa: BLE001 - whatever it is, it is told
        return _crash(told, error)
    taken_s, grown_mib = process_time() - since_s, _peak_mib() - before_mib
    if taken_s > MAX_S:
        return Crash(told, f"TooSlow: {taken_s:.1f} s", "too slow", "")
    if grown_mib > MAX_MIB:
        return Crash(told, f"TooMuch: {grown_mib:.0f} MiB", "too much", "")
    return found


@contextmanager
def _limited() -> Iterator[None]:
    def ring(number: int, _frame: FrameType | None) -> None:
        raise TooSlow(f"more than {MAX_S:g} s" if number == signal.SIGPROF else f"waited {MAX_WAITED_S:g} s")

    by_clock = _timed(signal.ITIMER_REAL, signal.SIGALRM, MAX_WAITED_S, ring)
    with _timed(signal.ITIMER_PROF, signal.SIGPROF, MAX_S, ring), by_clock:
        yield


@contextmanager
def _timed(timer: int, number: int, seconds: float, ring: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    before = signal.signal(number, ring)
    signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        signal.setitimer(timer, 0)
        signal.signal(number, before)


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _crash(told: bytes, error: BaseException) -> Crash:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "site-packages" not in frame.filename][-1:]
    where = " ".join(f"{frame.filename}:{frame.lineno}" for frame in ours)
    trace = "".join(traceback.format_exception(error, limit=-12))
    return Crash(told, f"{type(error).__name__}: {str(error)[:200]}", f"{type(error).__name__} {where}", trace)
