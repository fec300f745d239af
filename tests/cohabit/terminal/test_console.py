"""Console: names are shown as they are, and work of some length says where it is, in a log too."""

import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress

import pytest

from cohabit.terminal.console import console, show_amounts, show_error, show_names, show_table, steps


def test_in_a_log_each_step_is_a_line_beside_the_results(capsys: pytest.CaptureFixture[str]) -> None:
    with steps("evaluating") as advance:
        advance("tomorrow: split 1 of 3 [of all]")
        advance("training")

    told = capsys.readouterr()
    assert told.err == "evaluating\ntomorrow: split 1 of 3 [of all]\ntraining\n"
    assert told.out == ""


def test_a_name_is_told_as_it_is_though_a_piece_of_it_names_a_picture(capsys: pytest.CaptureFixture[str]) -> None:
    name = "shop:key:7"
    for show in (show_table, show_names, show_amounts):
        show("apps :bug:", ("app :fire:", "cores"), [(name, "2")])
    console.print(name)
    show_error(ValueError(name))
    with steps("reading") as advance:
        advance(name)

    told = capsys.readouterr()
    assert (told.out.count(name), told.out.count(":bug:"), told.out.count(":fire:")) == (4, 3, 3)
    assert told.err.count(name) == 2


WORKING = """
from cohabit.terminal.console import bar, steps
name = "shop[/red]:key:7"
with steps(name) as advance:
    advance(name)
with bar(name) as shown:
    shown.advance(name, 1, 2)
"""


def test_what_is_told_on_a_terminal_while_working_is_no_markup_either() -> None:
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "200"}
    subprocess.run([sys.executable, "-c", WORKING], stdout=theirs, env=env, check=True, timeout=60)
    os.close(theirs)
    told = b"".join(all_of(ours))
    os.close(ours)
    assert told.count(b"shop[/red]:key:7") >= 2


def all_of(terminal: int) -> Iterator[bytes]:
    """What was shown, until nobody holds the other side: a read may give a part alone, and the end is an error."""
    with suppress(OSError):
        while part := os.read(terminal, 1 << 16):
            yield part
