"""Instances of the ROADEF/EURO challenge: read as they are told, refused with their line, searched and checked."""

import lzma
import os
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest

from advisor.optimizer.constraints import wrongs
from advisor.optimizer.objective import cost
from benchmarks.reassign.bound import bound
from benchmarks.reassign.errors import UnusableFile
from benchmarks.reassign.roadef import read_assignment, read_model
from benchmarks.reassign.roadef_run import ROADEF, check, run
from benchmarks.runner import OURS, main

RNG = np.random.default_rng(0)
MODEL = """\
2
1 10
0 100
3
0 0 30 400 16 80 0 1 4
0 1 10 240 8 160 1 0 4
1 2 15 100 12 80 4 4 0
2
2 0
1 1 0
3
0 12 10 100
0 10 20 100
1 6 200 1
1
0 1 20
10
1 10 100
"""
"""Two resources, the first transient; three machines; service 1 needs service 0, which is at two locations at least."""
START = "0 1 0"
INSTANCES = {
    "a1_1": (49_528_750, 44_306_390),
    "a1_2": (1_061_649_570, 777_530_730),
    "a1_4": (632_499_600, 242_387_530),
    "a2_2": (1_876_768_120, 13_590_090),
    "a2_5": (787_355_300, 307_035_180),
}


def written(folder: Path, model: str = MODEL, start: str = START) -> tuple[Path, Path]:
    """Files of an instance."""
    paths = folder / "model.txt", folder / "assignment.txt"
    for path, text in zip(paths, (model, start), strict=True):
        path.write_text(text)
    return paths


def asked(folder: Path, **more: object) -> Namespace:
    model, assignment = written(folder)
    return Namespace(model=model, assignment=assignment, **more)


def test_an_instance_costs_what_a_hand_computes(tmp_path: Path) -> None:
    problem = read_model(*written(tmp_path))

    start, moved = cost(problem, problem.start), cost(problem, np.array([0, 2, 0]))

    # machine 0 holds 18, 210 of 16, 80 and 30, 400; machine 1 holds 10, 20 of 8, 160 and 10, 240
    assert start.excess == 10 * (2 + 2) + 100 * (130 + 0)
    assert start.balance == 10 * (max(0, 20 * 12 - 190) + max(0, 20 * 0 - 220) + max(0, 20 * 15 - 100))
    assert start.moves == 0
    assert moved.excess == 10 * 2 + 100 * 130
    assert moved.moves == 1 * 100 + 10 * 1 + 100 * 4


def test_costs_beyond_whole_numbers_do_not_wrap_round(tmp_path: Path) -> None:
    huge = MODEL.replace("0 10 20 100", f"0 10 20 {2**32}").replace("1 10 100\n", f"{2**32} 10 100\n")

    problem = read_model(*written(tmp_path, huge))

    assert cost(problem, np.array([0, 2, 0])).moves == pytest.approx(2.0**64, rel=1e-9)


@pytest.mark.parametrize(
    ("place", "rule"),
    [
        ([0, 0, 1], "alike"),
        ([0, 2, 1], "capacity"),
        ([0, 1, 2], "needs"),
        ([1, 2, 0], "capacity"),
        ([0, 1, 0], None),
        ([0, 2, 0], None),
    ],
)
def test_a_rule_that_is_broken_is_named(tmp_path: Path, place: list[int], rule: str | None) -> None:
    problem = read_model(*written(tmp_path))

    broken = {one.rule for one in wrongs(problem, np.array(place))}

    assert (rule in broken) if rule else not broken


def test_too_few_locations_are_named(tmp_path: Path) -> None:
    model = MODEL.replace("0 1 10 240", "0 0 10 240")

    problem = read_model(*written(tmp_path, model))

    assert [one.rule for one in wrongs(problem, problem.start)] == ["spread"]


def test_transient_use_counts_on_the_old_machine_too(tmp_path: Path) -> None:
    model = MODEL.replace("1 6 200 1", "1 6 20 1").replace("0 0 30 400", "0 0 17 400")

    problem = read_model(*written(tmp_path, model, "0 1 1"))

    assert not [one for one in wrongs(problem, np.array([2, 1, 1])) if one.where == 2]
    assert "capacity" in {one.rule for one in wrongs(problem, np.array([2, 0, 0]))}


@pytest.mark.parametrize(
    ("model", "line", "told"),
    [
        (MODEL[: MODEL.index("1 10 100")], 17, "ends 3 numbers before"),
        (MODEL + "7\n", 19, "numbers, where"),
        (MODEL.replace("0 12 10", "0 x 10"), 12, "not a whole number"),
        (MODEL.replace("0 12 10", "0 -12 10"), 12, "not a whole number of at least 0: '-12'"),
        (MODEL.replace("0 12 10", "0 1_2 10"), 12, "not a whole number"),
        (MODEL.replace("0 12 10", "0 +12 10"), 12, "not a whole number"),
        (MODEL.replace("0 12 10", f"0 1{'0' * 5000} 10"), 12, "outside 0"),
        (MODEL.replace("0 12 10", "2 12 10"), 14, "service 2, where there are 2"),
        (MODEL.replace("1 1 0\n3", "1 1 2\n3"), 10, "service 2, where there are 2"),
        (MODEL.replace("0 1 20", "0 2 20"), 17, "resource 2"),
        (MODEL.replace("2\n1 10", "999999999\n1 10", 1), 1, "at most"),
        ("", 1, "number of resources"),
        ("0\n0\n0\n0\n0\n0 0 0\n", 1, "no resources"),
    ],
)
def test_a_model_that_cannot_be_used_is_refused_with_its_line(tmp_path: Path, model: str, line: int, told: str) -> None:
    with pytest.raises(UnusableFile, match=told) as refused:
        read_model(*written(tmp_path, model))

    assert refused.value.line == line


@pytest.mark.parametrize(
    ("start", "told"),
    [("0 1", "ends 1 numbers"), ("0 1 0 0", "4 numbers, where 3 belong"), ("0 1 3", "machine 3"), ("0 1 a", "whole")],
)
def test_an_assignment_that_cannot_be_used_is_refused(tmp_path: Path, start: str, told: str) -> None:
    with pytest.raises(UnusableFile, match=told):
        read_model(*written(tmp_path, start=start))


def test_a_file_that_is_not_there_or_no_text_is_refused(tmp_path: Path) -> None:
    model, assignment = written(tmp_path)
    broken = tmp_path / "model.txt.xz"
    broken.write_bytes(b"no archive")

    for path in (tmp_path / "none.txt", broken, tmp_path):
        with pytest.raises(UnusableFile, match=path.name):
            read_model(path, assignment)
        with pytest.raises(UnusableFile, match=path.name):
            read_model(model, path)


def test_an_archive_that_is_cut_off_is_refused_and_a_byte_order_mark_is_not(tmp_path: Path) -> None:
    model, assignment = written(tmp_path)
    cut, marked = tmp_path / "cut.txt.xz", tmp_path / "marked.txt"
    cut.write_bytes(lzma.compress(model.read_bytes())[:-20])
    marked.write_bytes(b"\xef\xbb\xbf" + model.read_bytes().replace(b"\n", b"\r\n"))

    assert read_model(marked, assignment).containers == 3
    with pytest.raises(UnusableFile, match=r"cut\.txt\.xz"):
        read_model(cut, assignment)


def test_a_search_tells_its_figures_and_writes_what_the_check_accepts(tmp_path: Path) -> None:
    out = tmp_path / "new.txt"

    figures = run(asked(tmp_path, seconds=1.0, seed=1, out=out), RNG)[OURS]

    checked = check(asked(tmp_path, new=out), RNG)[OURS]
    assert list(figures) == ["cost", "start", "bound", "seconds", "evaluations_per_s"]
    assert figures["bound"] <= figures["cost"] <= figures["start"]
    assert checked["cost"] == figures["cost"]
    assert read_assignment(out, 3, 3).tolist() in ([0, 1, 0], [0, 2, 0])


@pytest.mark.parametrize(("place", "told"), [("0 0 1", "node 1 has 16 of 10"), ("0 1", "ends")])
def test_the_check_refuses_with_file_line_and_reason(tmp_path: Path, place: str, told: str) -> None:
    new = tmp_path / "new.txt"
    new.write_text(place)

    with pytest.raises(SystemExit, match=rf"new\.txt, line 1: .*({told})"):
        check(asked(tmp_path, new=new), RNG)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_what_cannot_be_written_after_a_search_is_told_with_what_it_costs(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"/dev/full cannot be written: .*; what was found costs \d"):
        run(asked(tmp_path, seconds=0.5, seed=1, out=Path("/dev/full")), RNG)


def test_a_line_that_is_no_text_is_named(tmp_path: Path) -> None:
    model, assignment = written(tmp_path)
    assignment.write_bytes(b"0 1\n\xe9 0\n")

    with pytest.raises(UnusableFile, match=r"line 2: no text"):
        read_model(model, assignment)


def test_locations_and_neighbourhoods_may_have_any_number(tmp_path: Path) -> None:
    model = MODEL.replace("1 2 15 100", "9007199254740991 9007199254740990 15 100")

    problem = read_model(*written(tmp_path, model))

    assert problem.limits.location.tolist() == [0, 1, 2]
    assert problem.limits.neighbourhood.tolist() == [0, 0, 1]


def test_a_start_that_breaks_a_rule_is_refused_before_the_search(tmp_path: Path) -> None:
    model, assignment = written(tmp_path, start="0 0 1")

    with pytest.raises(SystemExit, match=r"assignment\.txt, line 1: the start breaks a rule: node 0 has 2 of app 0"):
        run(Namespace(model=model, assignment=assignment, seconds=1.0, seed=1, out=None), RNG)


@pytest.mark.parametrize(
    "option",
    ["--seconds=0", "--seconds=-1", "--seconds=nan", "--seconds=inf", "--seed=-1", "--out=none/new.txt", "--out=."],
)
def test_what_cannot_be_asked_is_refused_before_the_search(
    tmp_path: Path, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    model, assignment = written(tmp_path)

    with pytest.raises(SystemExit):
        main([ROADEF], ["roadef", f"--model={model}", f"--assignment={assignment}", option])

    assert option.split("=", maxsplit=1)[0] in capsys.readouterr().err


@pytest.mark.public_data
@pytest.mark.parametrize("name", sorted(INSTANCES))
def test_public_instances_start_and_end_where_the_challenge_says(name: str) -> None:
    folder = os.environ.get("BENCH_DATA")
    if folder is None:
        pytest.skip("BENCH_DATA does not name the folder of public data")
    roadef = Path(folder) / "reassign" / "roadef"

    problem = read_model(roadef / f"model_{name}.txt.xz", roadef / f"assignment_{name}.txt.xz")

    assert (cost(problem, problem.start).total, bound(problem)) == INSTANCES[name]
    assert not wrongs(problem, problem.start)
