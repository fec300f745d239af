"""Console: in a log, work of some length says where it is."""

import pytest

from cohabit.console import steps


def test_in_a_log_each_step_is_a_line_beside_the_results(capsys: pytest.CaptureFixture[str]) -> None:
    with steps("evaluating") as tell:
        tell("tomorrow: split 1 of 3 [of all]")
        tell("training")

    told = capsys.readouterr()
    assert told.err == "evaluating\ntomorrow: split 1 of 3 [of all]\ntraining\n"
    assert told.out == ""
