"""Pair files: what can drive a backtest, and a word about what cannot."""

from pathlib import Path

import numpy as np
import pytest

from cohabit.backtest.pair_file import read_pairs
from cohabit.config.errors import CohabitError
from tests.cohabit.backtest.small_worlds import STRESSED, stressed

HEAD = "victim,aggressor,slowdown\n"


def written(folder: Path, text: str, name: str = "pairs.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_matrix_has_a_row_for_each_victim_and_a_gap_where_nothing_was_measured(tmp_path: Path) -> None:
    pairs = read_pairs(written(tmp_path, HEAD + "a,b,1.5\nb,a,0.9\n"))

    assert pairs.workloads == ("a", "b")
    assert pairs.slowdown[0].ravel().tolist() == pytest.approx([np.nan, 1.5, 0.9, np.nan], nan_ok=True)


def test_what_only_pressed_is_best_effort_and_victims_that_never_met_stay_apart(tmp_path: Path) -> None:
    world = stressed(tmp_path)

    victims = {"ads", "db", "web"}
    names = ("ads", "cache", "cpu", "db", "web")
    assert [name not in victims for name in names] == world.best_effort.tolist()
    assert [[{one, other} <= victims for one in names] for other in names] == world.apart.tolist()


def test_platforms_have_a_matrix_each(tmp_path: Path) -> None:
    text = "victim,aggressor,slowdown,platform\na,a,1.5,old\na,a,1.2,new\n"

    assert read_pairs(written(tmp_path, text)).slowdown.tolist() == [[[1.2]], [[1.5]]]


def test_columns_measured_alone_are_known_by_their_words(tmp_path: Path) -> None:
    alone = written(tmp_path, "workload,L3 occupancy mean,L3 occupancy p95,memory bandwidth\nweb,3,9,5\n", "alone.csv")

    pairs = read_pairs(written(tmp_path, STRESSED), alone)

    assert pairs.alone is not None
    assert pairs.alone[4].tolist() == pytest.approx([3.0, 5.0, np.nan, np.nan], nan_ok=True)
    assert np.isnan(pairs.alone[:4]).all()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("victim,aggressor\na,b\n", "no column 'slowdown'"),
        (HEAD, "no rows"),
        (HEAD + "a,b,fast\n", "not a number"),
        (HEAD + "a,b,1.0\nb,a,-1\n", "line 3: slowdown is not a number above 0"),
        (HEAD + "a,b,1e300\n", "line 2: slowdown is not a number above 0"),
        (HEAD + "a,b,nan\n", "line 2"),
        (HEAD + "a,b,1.0\na,b,1.1\n", "line 3: this pair is repeated"),
        (HEAD + "a,,1.0\n", "line 2: aggressor is empty"),
        ("\x00\x01\x02\n", "no column"),
        ("", "invalid CSV"),
        ("victim,aggressor,slowdown,slowdown\na,b,1,2\n", "column 'slowdown' twice"),
        (HEAD + "a,b,2020-01-01\n", "not a number"),
        (HEAD + "a,b,true\n", "not a number"),
        ("victim,aggressor,slowdown,platform\n" + "".join(f"a,b,1.1,p{i}\n" for i in range(51)), "51 platforms"),
    ],
)
def test_a_file_that_cannot_drive_says_why_and_where(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(CohabitError, match=why):
        read_pairs(written(tmp_path, text))


def test_names_of_another_encoding_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "latin.csv"
    path.write_bytes(HEAD.encode() + b"caf\xe9,b,1.2\n")

    with pytest.raises(CohabitError, match="not UTF-8"):
        read_pairs(path)

    path.write_bytes(b"caf\xe9," + HEAD.encode() + b"1,a,b,1.2\n")
    with pytest.raises(CohabitError, match="invalid CSV"):
        read_pairs(path)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("name,bandwidth\nweb,1\n", "no column 'workload'"),
        ("workload,bandwidth\nnobody,1\n", "none of the workloads"),
        ("workload,bandwidth\nweb,1\nweb,2\n", "line 3: this workload is repeated"),
        ("workload,power\nweb,1\n", "no column has the use of a shared resource"),
        ("workload,bandwidth\nweb,much\n", "not a number"),
    ],
)
def test_numbers_measured_alone_that_say_nothing_are_refused(tmp_path: Path, text: str, why: str) -> None:
    alone = written(tmp_path, text, "alone.csv")

    with pytest.raises(CohabitError, match=why):
        read_pairs(written(tmp_path, STRESSED), alone)
