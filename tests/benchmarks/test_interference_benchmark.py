"""The benchmark of interference files: splits that hold, figures that are all there, and words for bad files."""

import json
import os
from argparse import Namespace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.interference import BENCHMARK, splits_of, splits_of_pairs
from benchmarks.interference_files import UnusableFile, UnwritableFile, read_pairs, read_windows
from benchmarks.interference_scores import Judged, Said, scores
from benchmarks.pair_newcomers import PRIOR, aggressor_of, best_shares, newcomers
from benchmarks.runner import main
from models.challengers.pair_model import Cells
from models.forms.novelty import distance
from models.training.fit_novelty import fit_novelty

pytestmark = pytest.mark.slow

FIGURES = ("r2_log", "spearman", "mape", "mae_log", "coverage90", "width90", "modelled_share")


def windows_file(folder: Path, **changes: object) -> Path:
    rng = np.random.default_rng(0)
    misses = np.exp(rng.normal(0, 1, 80))
    table = pd.DataFrame(
        {
            "latency": np.exp(0.5 * np.log(misses) + rng.normal(0, 0.05, 80)),
            "kind": np.repeat(["a", "b", "c", "d"], 20),
            "misses": misses,
            "noise": rng.normal(size=80),
            "when": rng.permutation(80),
            "words": "text",
        }
    )
    path = folder / "windows.csv"
    table.assign(**changes).to_csv(path, index=False)
    return path


def pairs_file(folder: Path, **changes: object) -> Path:
    rng = np.random.default_rng(0)
    greed, pain = rng.gamma(2.0, 0.3, (2, 6))
    names = [f"w{i}" for i in range(6)]
    rows = [(v, a, 1 + pain[i] * greed[j]) for i, v in enumerate(names) for j, a in enumerate(names)]
    path = folder / "pairs.csv"
    pd.DataFrame(rows, columns=["victim", "aggressor", "slowdown"]).assign(**changes).to_csv(path, index=False)
    return path


def asked(path: Path, **options: object) -> Namespace:
    return Namespace(
        **{"file": path, "label": "latency", "group": "kind", "drop": [], "time": None, "alone": None} | options
    )


def last_line(capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    return found


def test_windows_are_judged_by_every_method(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.csv"
    path = windows_file(tmp_path)

    main([BENCHMARK], ["interference", "windows", "--file", str(path), "--label", "latency", "--group", "kind",
                       "--drop", "when", "--predictions", str(out)])  # fmt: skip
    found = last_line(capsys)
    said = pd.read_csv(out)

    assert list(found) == [
        "ours", "constant", "huber_linear", "k_nearest", "main_effects", "nearest_profile", "plain_lightgbm",
        "random_forest", "rank_1", "ridge",
    ]  # fmt: skip
    assert all(name + end in figures for figures in found.values() for name in FIGURES for end in ("", "_lo", "_hi"))
    assert "mae_log_above_ours_lo" in found["ridge"]
    assert found["ours"]["r2_log"] > 0.8
    assert found["constant"]["r2_log"] < 0.05
    assert said["row"].tolist() == list(range(80))
    assert list(said.columns) == ["row", "y", "yhat", "upper", "group", "split", "distance"]
    assert (said["upper"] >= said["yhat"]).all()


@pytest.mark.long
def test_pairs_are_judged_by_every_method(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, alone = tmp_path / "out.csv", tmp_path / "alone.csv"
    pd.DataFrame({"workload": [f"w{i}" for i in range(6)], "cpu": np.arange(6.0), "name": "x"}).to_csv(
        alone, index=False
    )
    split = np.where(np.arange(36) % 4 == 0, "test", "train")
    path = pairs_file(tmp_path, platform="p", split=split)

    main([BENCHMARK], ["interference", "pairs", "--file", str(path), "--alone", str(alone), "--predictions", str(out)])
    found = last_line(capsys)
    said = pd.read_csv(out)

    assert set(found) == {
        "ours", "constant", "victim_mean", "aggressor_mean", "additive", "rank_1", "rank_k", "nearest_profile",
    }  # fmt: skip
    assert all("regret_at_1" in figures for figures in found.values())
    assert found["ours"]["mae_log"] < found["victim_mean"]["mae_log"]
    assert said["row"].tolist() == np.flatnonzero(split == "test").tolist()
    assert list(said.columns) == ["row", "y", "yhat", "upper", "victim", "aggressor", "platform", "split"]
    pairs = pd.read_csv(path).iloc[said["row"]]
    assert said["victim"].tolist() == pairs["victim"].tolist()
    assert said["aggressor"].tolist() == pairs["aggressor"].tolist()


@pytest.mark.parametrize("role", ["victim", "aggressor"])
@pytest.mark.parametrize("probes", [0, 2])
def test_each_workload_is_left_out_in_turn_but_for_its_probes(tmp_path: Path, role: str, probes: int) -> None:
    pairs = read_pairs(asked(pairs_file(tmp_path)))
    of = getattr(pairs, role)

    splits = splits_of_pairs(pairs, role, probes)

    assert [np.unique(of[split.test]).tolist() for split in splits] == [[workload] for workload in range(6)]
    assert all((split.train ^ split.test).all() for split in splits)
    assert all((of[split.train] == workload).sum() == probes for workload, split in enumerate(splits))


@pytest.mark.long
def test_a_workload_that_nobody_saw_press_is_judged_by_every_method(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.csv"

    main([BENCHMARK], ["interference", "pairs", "--file", str(pairs_file(tmp_path)), "--leave-out", "aggressor",
                       "--probes", "2", "--predictions", str(out)])  # fmt: skip

    found = last_line(capsys)
    assert found["ours"]["mae_log"] < found["victim_mean"]["mae_log"]
    assert pd.read_csv(out)["aggressor"].value_counts().to_dict() == {f"w{i}": 4 for i in range(6)}


@pytest.mark.parametrize(
    ("role", "probes", "changes", "says"),
    [
        (None, 2, {}, "add --leave-out"),
        ("victim", 6, {}, "from 0 to 5"),
        ("victim", -1, {}, "from 0 to 5"),
        ("victim", 0, {"split": np.where(np.arange(36) % 4 == 0, "test", "train")}, "take it out"),
    ],
)
def test_what_cannot_be_left_out_is_refused(
    tmp_path: Path, role: str | None, probes: int, changes: dict[str, object], says: str
) -> None:
    pairs = read_pairs(asked(pairs_file(tmp_path, **changes)))

    with pytest.raises(UnusableFile, match=says):
        splits_of_pairs(pairs, role, probes)


def test_without_a_split_groups_are_left_out_and_with_time_the_last_rows(tmp_path: Path) -> None:
    path = windows_file(tmp_path)

    grouped = read_windows(asked(path))
    timed = read_windows(asked(path, time="when"))

    assert all(not set(grouped.group[s.train]) & set(grouped.group[s.test]) for s in splits_of(grouped))
    [split] = splits_of(timed)
    assert split.test.tolist() == [i >= 56 for i in range(80)]
    assert (grouped.names, timed.names) == (("misses", "noise", "when"), ("misses", "noise"))


def test_the_group_label_and_dropped_columns_are_never_features(tmp_path: Path) -> None:
    path = windows_file(tmp_path, kind=np.repeat([1, 2, 3, 4], 20), split="train")
    table = pd.read_csv(path)
    table.loc[60:, "split"] = "test"
    table.to_csv(path, index=False)

    found = read_windows(asked(path, drop=["noise"]))

    assert found.names == ("misses", "when")
    assert found.held is not None
    assert found.held.sum() == 20


@pytest.mark.parametrize(
    ("changes", "options", "words"),
    [
        ({"latency": 0.0}, {}, "line 2, column 'latency': 0.0 is not a number above zero"),
        ({"when": "noon"}, {"time": "when"}, "line 2, column 'when': noon is not a number to sort by"),
        ({"kind": [None, *"abcd" * 19, "a", "b", "c"]}, {}, "line 2, column 'kind': nan is empty"),
        ({"noise": 1e300}, {}, "line 2, column 'noise': 1e\\+300 is too large"),
        ({"latency": "x"}, {}, "is not a number above zero"),
        (
            {"noise": [*"0123456789", "12ms", *"7" * 69]},
            {},
            "line 12, column 'noise': 12ms is no number, as most cells",
        ),
        ({"when": 3.0}, {"time": "when"}, "'when' does not change after its first 10 rows"),
        ({"when": [0.0] * 9 + [1.0] * 71}, {"time": "when"}, "'when' does not change after its first 10 rows"),
        ({}, {"label": "p99"}, "no column 'p99'; it has latency"),
        ({}, {"drop": ["misses", "noise", "when"]}, "no numeric column is left"),
        ({"split": "later"}, {}, "other than 'train' and 'test'"),
        ({"split": "train"}, {}, "leaves nothing to judge"),
    ],
)
def test_an_unusable_file_of_windows_says_what_is_wrong(
    tmp_path: Path, changes: dict[str, object], options: dict[str, object], words: str
) -> None:
    with pytest.raises(UnusableFile, match=words):
        read_windows(asked(windows_file(tmp_path, **changes), **options))


def test_unusable_files_of_pairs_say_what_is_wrong(tmp_path: Path) -> None:
    twice = tmp_path / "alone.csv"
    twice.write_text("workload,cpu\nw0,1\nw0,2\n")

    with pytest.raises(UnusableFile, match="describes a workload twice"):
        read_pairs(asked(pairs_file(tmp_path), alone=twice))
    stranger = tmp_path / "stranger.csv"
    stranger.write_text("workload,cpu\nnobody,1\n")
    with pytest.raises(UnusableFile, match="describes none of the workloads"):
        read_pairs(asked(pairs_file(tmp_path), alone=stranger))
    with pytest.raises(UnusableFile, match="line 2, column 'victim': nan is empty"):
        read_pairs(asked(pairs_file(tmp_path, victim=[None, *"v" * 35])))
    with pytest.raises(UnusableFile, match="cannot be read as CSV"):
        read_pairs(asked(tmp_path / "nothing.csv"))
    with pytest.raises(UnusableFile, match="no column 'victim'"):
        read_pairs(asked(windows_file(tmp_path)))


def test_a_column_of_words_is_left_out_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cores = ["4", "4,5", "4,5,6"] * 26 + ["4", "4,5"]

    found = read_windows(asked(windows_file(tmp_path, cores=cores)))
    told = capsys.readouterr().err

    assert found.names == ("misses", "noise", "when")
    assert "column 'words' holds words and is left out" in told
    assert "column 'cores' holds words and is left out" in told


def test_missing_cells_and_flags_stay_numbers(tmp_path: Path) -> None:
    flags = [None, *[True, False] * 39, True]

    found = read_windows(asked(windows_file(tmp_path, noise=flags, misses=["", *"1" * 79])))

    assert found.names == ("misses", "noise", "when")
    assert np.isnan(found.features[0, :2]).all()
    assert found.features[1:4, 1].tolist() == [1, 0, 1]


@pytest.mark.parametrize("others", ["1", "x"])
def test_an_exponent_beyond_all_numbers_is_refused(tmp_path: Path, others: str) -> None:
    path = windows_file(tmp_path, latency=["1.7e2147483648", others, *"1" * 78])

    with pytest.raises(UnusableFile, match="line 2, column 'latency'"):
        read_windows(asked(path))


def test_words_among_what_was_measured_alone_are_refused(tmp_path: Path) -> None:
    alone = tmp_path / "alone.csv"
    alone.write_text("workload,cpu\nw0,1\nw1,much\nw2,3\n")

    with pytest.raises(UnusableFile, match="line 3, column 'cpu': much is no number"):
        read_pairs(asked(pairs_file(tmp_path), alone=alone))


def test_rows_of_equal_time_are_never_parted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    when = np.random.default_rng(1).permutation(np.repeat([0.0, 1.0, 2.0, 3.0], [20, 30, 15, 15]))

    found = read_windows(asked(windows_file(tmp_path, when=when), time="when"))

    assert found.held is not None
    assert found.held.tolist() == [False] * 50 + [True] * 30  # of 20, 50 and 65 the nearest to 56
    assert "the last 30 of 80 are judged" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["nowhere/out.csv", "."])
def test_predictions_that_cannot_be_written_are_refused_before_anything_is_read(tmp_path: Path, name: str) -> None:
    with pytest.raises(UnwritableFile, match="nothing was run"):
        main([BENCHMARK], ["interference", "windows", "--file", "no.csv", "--label", "l", "--group", "g",
                           "--predictions", str(tmp_path / name)])  # fmt: skip


def test_a_group_of_nearly_all_rows_is_refused(tmp_path: Path) -> None:
    windows = read_windows(asked(windows_file(tmp_path, kind=["a"] * 76 + ["b"] * 4)))

    with pytest.raises(UnusableFile, match="without its largest group the file has 4 rows"):
        splits_of(windows)


def test_fewer_rows_than_neighbours_are_judged_all_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = windows_file(tmp_path)
    pd.read_csv(path).iloc[10:30].to_csv(path, index=False)

    main([BENCHMARK], ["interference", "windows", "--file", str(path), "--label", "latency", "--group", "kind"])
    said = capsys.readouterr()

    assert "k_nearest" in json.loads(said.out.strip().splitlines()[-1])
    steps = [line.split(" s  ")[1] for line in said.err.splitlines() if " s  " in line]
    assert steps[0] == "fold 1 of 2: ours"
    assert "fold 2 of 2: random_forest" in steps
    assert steps[-1] == "intervals"


def test_a_better_method_stands_out_with_an_interval_that_excludes_zero() -> None:
    rng = np.random.default_rng(0)
    truth = rng.normal(size=200)
    said = {name: Said(truth + rng.normal(0, e, 200), truth + 1) for name, e in (("ours", 0.1), ("other", 0.5))}

    found = scores(Judged(truth, np.arange(200) // 10, said), rng)

    assert found["other"]["mae_log_above_ours_lo"] > 0
    assert found["other"]["r2_log_below_ours_lo"] > 0
    assert found["ours"]["coverage90"] == 1.0
    assert "regret_at_1" not in found["ours"]


def test_one_cluster_does_not_pretend_to_be_sure() -> None:
    rng = np.random.default_rng(0)
    truth = rng.normal(size=60)

    found = scores(Judged(truth, np.zeros(60, np.int64), {"ours": Said(truth + rng.normal(0, 0.3, 60), truth)}), rng)

    assert found["ours"]["mae_log_lo"] < found["ours"]["mae_log"] < found["ours"]["mae_log_hi"]


@pytest.mark.public_data
def test_public_files_have_the_rows_their_readme_states() -> None:
    folder = os.environ.get("BENCH_DATA")
    if not folder:
        pytest.skip("BENCH_DATA names no folder with public data")
    home = Path(folder) / "interference"
    windows = read_windows(
        asked(home / "windows" / "ntua_thegame.csv.gz", label="slowdown", group="Interference_Name", drop=["FolderID"])
    )

    assert windows.features.shape[0] == 826
    assert len(windows.group_names) == 23
    ways = asked(home / "windows" / "swan_cache_ways.csv.gz", label="p99_us", group="swan_aggressor_name")
    assert read_windows(ways).features.shape == (660, 90)
    assert len(read_pairs(asked(home / "pairs" / "fairco2.csv")).victim) == 100
    assert len(read_pairs(asked(home / "pairs" / "gavel_p100.csv")).victim) == 650
    assert len(read_pairs(asked(home / "pairs" / "eth_cca.csv")).victim) == 42


@pytest.fixture(scope="module")
def runs() -> pd.DataFrame:
    folder = os.environ.get("BENCH_DATA")
    if not folder:
        pytest.skip("BENCH_DATA names no folder with public data")
    return pd.read_csv(Path(folder) / "interference" / "windows" / "ntua_thegame.csv.gz")


def far_share(runs: pd.DataFrame, seen: pd.Series, unseen: pd.Series) -> float:
    """Share of the unseen runs that are said to be like none of the seen ones."""
    features = runs.drop(columns="slowdown").select_dtypes("number").to_numpy(np.float64)
    group = runs["Interference_Name"].astype("category").cat.codes.to_numpy()
    limit = fit_novelty(features[seen], group[seen], free=np.ones(features.shape[1], np.bool_), seed=0)
    assert limit is not None
    return float((distance(features[unseen], limit) > 1).mean())


@pytest.mark.public_data
@pytest.mark.parametrize("kind", ["CPU", "L3", "Membw"])
def test_a_kind_of_interference_never_seen_is_flagged(runs: pd.DataFrame, kind: str) -> None:
    pure, held = runs["Interference_Category"] != "Mix", runs["Interference_Category"] == kind

    assert far_share(runs, pure & ~held, held) >= 0.9


@pytest.mark.public_data
def test_campaigns_left_out_are_hardly_ever_flagged(runs: pd.DataFrame) -> None:
    campaign = runs["FolderID"]

    flagged = sum((campaign == c).sum() * far_share(runs, campaign != c, campaign == c) for c in campaign.unique())

    assert flagged / len(runs) <= 0.05


def greed_and_pain(workloads: int) -> Cells:
    """Every pair once; some press harder than others, all suffer alike."""
    victim, aggressor = (each.ravel() for each in np.mgrid[:workloads, :workloads])
    return Cells(victim, aggressor, 0.1 * aggressor + 0.01 * victim)


@pytest.mark.parametrize("probes", [0, 2])
def test_a_workload_with_few_pairs_in_a_role_is_a_newcomer_there(probes: int) -> None:
    cells = greed_and_pain(6)
    asked = (cells.aggressor == 3) & (cells.victim >= probes)

    new = newcomers(cells.take(~asked), cells.take(asked))

    assert new is not None
    assert (new.role, new.probes) == (aggressor_of, probes)


def test_pairs_of_workloads_that_are_known_are_none_of_newcomers() -> None:
    cells = greed_and_pain(6)
    asked = np.arange(36) % 5 == 0

    assert newcomers(cells.take(~asked), cells.take(asked)) is None


def test_shares_go_to_the_part_that_errs_and_misleads_least() -> None:
    truth, choice = np.linspace(0, 1, 300), np.arange(300) % 3
    said = np.column_stack([truth[::-1], truth + 0.01, np.full(300, 0.5), truth[::-1]])

    assert best_shares(said, truth, choice).tolist() == [0.0, 1.0, 0.0, 0.0]
    assert PRIOR[1] <= best_shares(said[:3], truth[:3], choice[:3])[1] < 1.0
