"""Several consumers watched over: who dies comes back, who is told to end drains."""

import os
import signal
import sys
from functools import partial
from pathlib import Path
from threading import Event, Thread
from time import monotonic

from ingest.pipeline.consumer_group import Restarts, run_members

QUICK = Restarts(first_s=0.01, max_s=0.02, healthy_s=60.0, tries=3)


def note_and_wait(folder: Path, number: int) -> None:
    """Note that it runs, then wait to be told to end."""
    ended = Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    (folder / f"{number}-{os.getpid()}").touch()
    ended.wait()
    (folder / f"drained-{number}").touch()


def die_twice(folder: Path, number: int) -> None:
    """Die the first two times, end well the third."""
    deaths = len(list(folder.glob(f"{number}-*")))
    (folder / f"{number}-{os.getpid()}").touch()
    if deaths < 2:
        os.kill(os.getpid(), signal.SIGKILL)


def fail(folder: Path, number: int) -> None:
    """End badly each time."""
    (folder / f"{number}-{os.getpid()}").touch()
    sys.exit(3)


def when(holds: partial[bool], do: partial[None]) -> Thread:
    """Do something, in a thread, once something holds."""

    def wait_and_do() -> None:
        deadline = monotonic() + 120
        while not holds() and monotonic() < deadline:
            Event().wait(0.02)
        do()

    thread = Thread(target=wait_and_do)
    thread.start()
    return thread


def number_of(folder: Path, pattern: str, least: int) -> bool:
    return len(list(folder.glob(pattern))) >= least


def test_told_to_stop_every_member_drains(tmp_path: Path) -> None:
    stop = Event()
    thread = when(partial(number_of, tmp_path, "?-*", 2), partial(stop.set))

    well = run_members(partial(note_and_wait, tmp_path), 2, stop, "stopped", QUICK)

    thread.join()
    assert well
    assert sorted(path.name for path in tmp_path.glob("drained-*")) == ["drained-0", "drained-1"]


def kill_first(folder: Path) -> None:
    os.kill(int(next(folder.glob("0-*")).name[2:]), signal.SIGKILL)


def test_a_member_that_was_killed_is_started_again(tmp_path: Path) -> None:
    stop = Event()
    killer = when(partial(number_of, tmp_path, "0-*", 1), partial(kill_first, tmp_path))
    stopper = when(partial(number_of, tmp_path, "0-*", 2), partial(stop.set))

    assert run_members(partial(note_and_wait, tmp_path), 1, stop, "stopped", QUICK)

    killer.join()
    stopper.join()
    assert number_of(tmp_path, "0-*", 2)


def test_until_the_end_deaths_are_survived_and_the_end_is_waited_for(tmp_path: Path) -> None:
    assert run_members(partial(die_twice, tmp_path), 1, Event(), "end", QUICK)

    assert len(list(tmp_path.iterdir())) == 3


def test_until_the_end_a_member_that_fails_again_and_again_is_given_up(tmp_path: Path) -> None:
    assert not run_members(partial(fail, tmp_path), 1, Event(), "end", QUICK)

    assert len(list(tmp_path.iterdir())) == QUICK.tries


def test_pauses_double_up_to_a_limit() -> None:
    assert [Restarts(0.5, 3.0).pause_s(deaths) for deaths in (1, 2, 3, 4, 40)] == [0.5, 1.0, 2.0, 3.0, 3.0]
