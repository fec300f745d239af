"""Instances of Alibaba's scheduling contest: read as they are told, planned, carried out, refused with their line."""

import os
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest

from advisor.optimizer.objective import cost
from advisor.optimizer.problem import NOWHERE
from benchmarks.reassign.descent import best_gain, first_improvement
from benchmarks.reassign.errors import UnusableFile
from benchmarks.reassign.tianchi import TIMES, Contest, Rules, read_contest
from benchmarks.reassign.tianchi_plan import carried_out, cost_of, read_plan
from benchmarks.reassign.tianchi_run import TIANCHI, check, run
from benchmarks.runner import OURS, TOP, main

RNG = np.random.default_rng(0)
Tables = dict[str, list[str]]


def profile(value: float) -> str:
    return "|".join([str(value)] * TIMES)


def tables() -> Tables:
    """Web at 6 cores and batch at 3, on machines of 10 and 20: m1 holds two of web and m2 one, one batch is nowhere."""
    return {
        "app_resources": [f"web,{profile(6)},{profile(1)},10,1,0,0", f"batch,{profile(3)},{profile(2)},10,0,0,0"],
        "machine_resources": [
            f"m1,{20},{16},100,7,3,7",
            f"m2,{10},{16},100,7,3,7",
            f"m3,{20},{16},100,7,3,7",
        ],
        "instance_deploy": ["w1,web,m1", "w2,web,m1", "w3,web,m2", "b1,batch,m1", "b2,batch,"],
        "app_interference": ["web,batch,1", "web,web,1"],
    }


def written(folder: Path, files: Tables) -> Path:
    for name, lines in files.items():
        (folder / f"{name}.csv").write_text("".join(f"{line}\n" for line in lines))
    return folder


def placed() -> Tables:
    """The same with everybody somewhere, as the semifinal has it."""
    files = tables()
    files["instance_deploy"][-1] = "b2,batch,m3"
    return files


def carried(folder: Path, rules: Rules, files: Tables, lines: list[str]) -> tuple[Contest, list[int]]:
    """Where everybody is after the lines of a submission."""
    contest = read_contest(written(folder, files), rules)
    path = folder / "submit.csv"
    path.write_text("".join(f"{line}\n" for line in lines))
    return contest, carried_out(path, contest, read_plan(path, contest)).tolist()


def test_an_instance_costs_what_a_hand_computes(tmp_path: Path) -> None:
    preliminary = read_contest(written(tmp_path, placed()), "preliminary")
    semifinal = read_contest(tmp_path, "semifinal")

    # m1 has 15 of 20 cores and three instances, m2 6 of 10 and one, m3 3 of 20
    above = np.expm1([0.25, 0.1])
    assert cost(preliminary.problem, preliminary.problem.start).total == pytest.approx(3 + 10 * above.sum())
    assert cost(semifinal.problem, semifinal.problem.start).total == pytest.approx(3 + 4 * above[0] + 2 * above[1])
    for contest in (preliminary, semifinal):
        engine = cost(contest.problem, contest.problem.start).total
        assert cost_of(contest, contest.problem.start) == pytest.approx(engine)


def test_who_is_nowhere_costs_as_the_contest_says(tmp_path: Path) -> None:
    contest = read_contest(written(tmp_path, tables()), "preliminary")

    assert contest.problem.start.tolist() == [0, 0, 1, 0, NOWHERE]
    assert cost_of(contest, contest.problem.start) > 1e9


@pytest.mark.parametrize(
    ("lines", "place"),
    [
        (["b2,m3"], [0, 0, 1, 0, 2]),
        (["b2,m1"], None),
        (["w3,m3", "b2,m2"], [0, 0, 2, 0, 1]),
        (["b1,m1", "b2,m3"], [0, 0, 1, 0, 2]),
        (["w1,m3", "w3,m1", "b2,m2"], [2, 0, 0, 0, 1]),
    ],
)
def test_moves_run_one_after_the_other(tmp_path: Path, lines: list[str], place: list[int] | None) -> None:
    if place is None:
        with pytest.raises(UnusableFile, match=r"line 1: b2 cannot go to m1: 2 of its app beside one that bears 1"):
            carried(tmp_path, "preliminary", tables(), lines)
    else:
        assert carried(tmp_path, "preliminary", tables(), lines)[1] == place


@pytest.mark.parametrize(
    ("lines", "line", "told"),
    [
        ([], 1, "1 instances have no machine, among them b2"),
        (["w3,m1", "b2,m3"], 1, "w3 cannot go to m1: 1 too much of column 0"),
        (["b2,m3", "w9,m3"], 2, "instance 'w9', which is not known"),
        (["b2,m3", "w1,m9"], 2, "machine 'm9', which is not known"),
        (["b2,m3", "w1"], 2, "1 words divided by commas, where 2 belong"),
        (["b2,m3", "", "w1,m3"], 2, "1 words"),
        (["b1,m3", "w3,m1", "b2,m2"], 2, "3 of the same app"),
        (["b2,m3", "b1,m3", "w3,m3"], 3, "2 of an app of which 1 may be beside it"),
    ],
)
def test_a_corrupt_submission_is_refused_with_its_line(tmp_path: Path, lines: list[str], line: int, told: str) -> None:
    with pytest.raises(UnusableFile, match=told) as refused:
        carried(tmp_path, "preliminary", tables(), lines)

    assert refused.value.line == line


def test_in_a_round_old_instances_count_until_all_are_created(tmp_path: Path) -> None:
    swap = ["1,w3,m3", "1,b2,m2"]
    full = ["1,b1,m2", "1,w3,m1"]

    assert carried(tmp_path, "semifinal", placed(), swap)[1] == [0, 0, 2, 0, 1]
    with pytest.raises(UnusableFile, match="line 2: w3 cannot go to m1: 1 too much of column 0"):
        carried(tmp_path, "semifinal", placed(), full)
    assert carried(tmp_path, "semifinal", placed(), ["1,w1,m3", "1,b1,m2", "2,w3,m1"])[1] == [2, 0, 0, 1, 2]


@pytest.mark.parametrize(
    ("lines", "line", "told"),
    [
        (["1,w1,m3", "1,w1,m1"], 2, "w1 moves twice in round 1"),
        (["2,w1,m3", "1,b1,m3"], 2, "round '1', which is not one of 2 to 3"),
        (["4,w1,m3"], 1, "round '4'"),
        (["0,w1,m3"], 1, "round '0'"),
        (["1,w1,m1"], 1, "on that machine already"),
        (["w1,m3"], 1, "2 words divided by commas, where 3 belong by the rules of the semifinal"),
    ],
)
def test_a_corrupt_plan_of_rounds_is_refused_with_its_line(
    tmp_path: Path, lines: list[str], line: int, told: str
) -> None:
    with pytest.raises(UnusableFile, match=told) as refused:
        carried(tmp_path, "semifinal", placed(), lines)

    assert refused.value.line == line


@pytest.mark.parametrize(
    ("name", "number", "text", "told"),
    [
        ("app_resources", 0, f"web,{profile(6)},{profile(1)},10,1,0", "6 words divided by commas, where 7"),
        ("app_resources", 1, f"web,{profile(6)},{profile(1)},10,1,0,0", "web, which stands there before"),
        ("app_resources", 1, f"batch,1|2,{profile(1)},10,1,0,0", r"2 numbers divided by \|, where 98"),
        ("app_resources", 1, f"batch,{profile(-1)},{profile(1)},10,1,0,0", r"not a number from 0 to 1e\+15: '-1"),
        ("app_resources", 1, f"batch,{profile(1)},{profile(1)},x,1,0,0", "not a number: 'x'"),
        ("app_resources", 1, f"batch,{profile(1)},{profile(1)},nan,1,0,0", r"not a number from 0 to 1e\+15: 'nan'"),
        ("machine_resources", 1, "m2,0,16,100,7,3,7", "a machine without cpu"),
        ("instance_deploy", 2, "w3,other,m2", "app 'other', which is not known"),
        ("instance_deploy", 2, "w3,web,m9", "machine 'm9', which is not known"),
        ("instance_deploy", 2, ",web,m2", "a name that is empty"),
        ("app_interference", 1, "web,other,1", "app 'other', which is not known"),
        ("app_interference", 1, "web,batch,-1", "not a number from 0"),
        ("app_interference", 1, "web,batch,1.5", "not a whole number: '1.5'"),
        ("machine_resources", 1, "m2,1e300,16,100,7,3,7", "not a number from 0"),
    ],
)
def test_a_folder_that_cannot_be_used_is_refused_with_file_and_line(
    tmp_path: Path, name: str, number: int, text: str, told: str
) -> None:
    files = tables()
    files[name][number] = text

    with pytest.raises(UnusableFile, match=told) as refused:
        read_contest(written(tmp_path, files), "preliminary")

    assert (refused.value.path.stem, refused.value.line) == (name, number + 1)


def test_a_folder_without_a_file_is_refused(tmp_path: Path) -> None:
    written(tmp_path, tables())
    (tmp_path / "machine_resources.csv").unlink()

    with pytest.raises(UnusableFile, match=r"machine_resources\.csv: there is no such file"):
        read_contest(tmp_path, "preliminary")

    (tmp_path / "machine_resources.csv").write_text("")
    with pytest.raises(UnusableFile, match="nothing in it"):
        read_contest(tmp_path, "preliminary")


@pytest.mark.parametrize(("rules", "files"), [("preliminary", tables()), ("semifinal", placed())])
def test_a_search_writes_what_the_check_accepts(tmp_path: Path, rules: Rules, files: Tables) -> None:
    folder, out = written(tmp_path, files), tmp_path / "submit.csv"
    asked = Namespace(rules=rules, dir=folder, seconds=0.5, seed=1, max_moves=2**62, out=out, submit=out)

    result = run(asked, RNG)

    checked = check(asked, RNG)[OURS]
    ours = result[OURS] if rules == "preliminary" else result[TOP]
    assert list(ours) == ["cost", "start", "bound", "seconds", "evaluations_per_s", "moves"]
    assert ours["bound"] <= ours["cost"] == pytest.approx(checked["cost"])
    assert ours["cost"] <= ours["start"]
    assert set(result) == ({OURS} if rules == "preliminary" else {TOP, "descent"})


@pytest.mark.parametrize("most", [0, 1, 99])
def test_who_is_nowhere_in_the_semifinal_is_placed_by_all_and_counts_in_no_budget(tmp_path: Path, most: int) -> None:
    asked = Namespace(rules="semifinal", dir=written(tmp_path, tables()), seconds=0.5, seed=1, max_moves=most, out=None)

    result = run(asked, RNG)

    simpler = result["descent" if most == 99 else "greedy"]
    assert result[TOP]["start"] > 1e9 > max(result[TOP]["cost"], simpler["cost"])
    assert result[TOP]["moves"] <= 1 + most


@pytest.mark.parametrize("most", [0, 1, 2])
def test_no_more_moves_than_allowed_and_beside_them_the_ones_that_gain_most(tmp_path: Path, most: int) -> None:
    asked = Namespace(rules="semifinal", dir=written(tmp_path, placed()), seconds=3.0, seed=1, max_moves=most, out=None)

    result = run(asked, RNG)

    assert result[TOP]["moves"] <= most
    assert result["greedy"]["moves"] <= most
    assert result[TOP]["cost"] <= result["greedy"]["cost"] + 1e-9


def test_simpler_means_keep_the_rules_and_gain_what_they_say(tmp_path: Path) -> None:
    contest = read_contest(written(tmp_path, placed()), "semifinal")

    for steps in (first_improvement(contest, lambda: 0.0), best_gain(contest, 99)):
        place = carried_out(Path("steps"), contest, steps)
        assert steps
        assert cost_of(contest, place) < cost_of(contest, contest.problem.start)
    assert not first_improvement(contest, lambda: 1.0)
    assert len(best_gain(contest, 1)) == 1


def overloaded() -> Tables:
    """Machine m2 has more than it bears, and there is room elsewhere."""
    return tables() | {"instance_deploy": ["w1,web,m2", "w2,web,m2", "w3,web,m2", "b1,batch,m1"]}


def tiny() -> Tables:
    """Machine m1 has hardly any cpu."""
    files = placed()
    files["machine_resources"][0] = files["machine_resources"][0].replace("m1,20", "m1,0.001")
    return files


@pytest.mark.parametrize(("files", "broken"), [(placed(), 0), (overloaded(), 1), (tiny(), 1)])
def test_the_check_tells_how_many_machines_break_a_rule_before_and_after(
    tmp_path: Path, files: Tables, broken: int
) -> None:
    folder, nothing, out = written(tmp_path, files), tmp_path / "nothing.csv", tmp_path / "submit.csv"
    nothing.touch()
    asked = Namespace(rules="preliminary", dir=folder, seconds=0.5, seed=1, max_moves=2**62, out=out, submit=nothing)

    before = check(asked, RNG)[OURS]
    run(asked, RNG)
    after = check(Namespace(**{**vars(asked), "submit": out}), RNG)[OURS]

    assert before["broken"] == before["broken_at_start"] == broken
    assert after["broken"] == 0
    assert after["cost"] <= before["cost"] < np.inf


@pytest.mark.parametrize(
    "option",
    ["--seconds=0", "--max-moves=-1", "--max-moves=nan", "--max-moves=1_0", "--rules=final", "--out=none/submit.csv"],
)
def test_what_cannot_be_asked_is_refused_before_the_search(
    tmp_path: Path, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["tianchi", "--rules=semifinal", f"--dir={written(tmp_path, placed())}", option]

    with pytest.raises(SystemExit):
        main([TIANCHI], asked)

    assert option.split("=", maxsplit=1)[0] in capsys.readouterr().err


@pytest.mark.public_data
def test_public_instances_start_where_the_contest_says() -> None:
    folder = os.environ.get("BENCH_DATA")
    if folder is None:
        pytest.skip("BENCH_DATA does not name the folder of public data")
    tianchi = Path(folder) / "reassign" / "tianchi"

    small, large = (
        read_contest(tianchi / "mini_e80", "semifinal"),
        read_contest(tianchi / "preliminary_b", "preliminary"),
    )

    assert cost(small.problem, small.problem.start).total == pytest.approx(315.7435, abs=5e-5)
    assert (large.problem.nodes, large.problem.containers, large.problem.apps) == (6_000, 68_224, 9_338)
    assert (large.problem.start == NOWHERE).sum() == 6_970
