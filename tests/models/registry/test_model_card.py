"""Model card: says what the manifest says, every number of it, and nothing else."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cohabit.training.train_model import Effort, train_bundle
from features.schema.catalog import FEATURES, catalogue_hash
from features.training.diagnosis_rows import DIAGNOSIS as DIAGNOSIS_FEATURES
from models.bundle.bundle import load_bundle
from models.bundle.manifest import AppMargin, EntryChoice, EntryMargins, Manifest, ModelEntry, Provenance, Sampled
from models.calibration.conformal import Calibration
from models.errors import BundleCorrupt
from models.metrics.errors_and_ranks import Estimate
from models.registry.model_card import CARD, meaning, model_card
from models.registry.registry import Registry
from models.training.fit import TrainConfig
from tests.models.simulated import Simulated

T0 = datetime(2026, 3, 1, 7, 8, 9, tzinfo=UTC)
NUMBER = re.compile(r"(?<![\w.-])-?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?(?![\w])")


def entry(calibration: Calibration) -> ModelEntry:
    return ModelEntry(
        files={"mean": "m.onnx", "spread": "s.onnx"},
        features=("pressure_cpu", "sensitivity_llc", "own_psi_cpu_some_frac"),
        signs=(1, 0, 1),
        medians={},
        calibration=calibration,
    )


def manifest(**changed: object) -> Manifest:
    calibration = Calibration(0.9, 1.37, 1.93, 2.21, rows=1047, groups=12, node_windows=311)
    told: dict[str, object] = {
        "created_at": T0,
        "models": {"diagnosis": entry(calibration)},
        "catalogue_hash": "abc",
        "training_window": (T0, T0.replace(day=2)),
        "data_fingerprint": "def",
        "platforms": ("epyc",),
        "metrics": {
            "leave_app_out": {
                "ours": {"mae_log": Estimate(0.123, 0.051, 0.234), "coverage90": Estimate(0.934, 0.91, 0.95)},
                "ridge": {"mae_log": Estimate(0.211, 0.2, 0.22)},
            }
        },
        "provenance": Provenance(rows=1047, apps=13, nodes=17, settings={"rounds": 77, "learning_rate": 0.07}),
    }
    return Manifest.model_validate({**told, **changed})


def numbers_of(value: object) -> set[str]:
    """Every number in what JSON holds, as a card may write it."""
    if isinstance(value, dict):
        return set().union(set(), *(numbers_of(item) for item in value.values()))
    if isinstance(value, list):
        return set().union(set(), *(numbers_of(item) for item in value))
    if isinstance(value, bool) or not isinstance(value, int | float):
        return set()
    return {str(value), f"{value:,}", f"{value:.4g}", f"{value:g}"}


def numbers_in(card: str) -> set[str]:
    """Numbers outside of names and times."""
    bare = re.sub(r"`[^`]*`|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d|coverage90", "", card)
    return set(NUMBER.findall(bare))


def test_the_pattern_finds_numbers() -> None:
    assert numbers_in("a 1,047 b -0.5 (0.051 to 1e-05) `9` coverage90 v2") == {"1,047", "-0.5", "0.051", "1e-05"}


@settings(max_examples=50, deadline=None)
@given(
    figures=st.lists(st.floats(1e-4, 1e4), min_size=7, max_size=7),
    counts=st.lists(st.integers(1, 10**7), min_size=6, max_size=6),
)
def test_every_number_of_a_card_is_the_manifests(figures: list[float], counts: list[int]) -> None:
    a, b, c, d, e, f, g = figures
    rows, groups, windows, apps, nodes, rounds = counts
    told = manifest(
        models={"diagnosis": entry(Calibration(0.9, a, b, c, rows=rows, groups=groups, node_windows=windows))},
        metrics={"time_forward": {"ours": {"mae_log": Estimate(d, e, f)}, "ridge": {"mae_log": Estimate(g, e, f)}}},
        provenance=Provenance(rows=rows, apps=apps, nodes=nodes, settings={"rounds": rounds, "rate": g}),
    )

    card = model_card(told)

    known = numbers_of(json.loads(told.model_dump_json()))
    assert numbers_in(card) <= known
    for number in (f"{rows:,} rows", f"{apps:,} apps", f"{nodes:,} nodes", f"{d:.4g} ({e:.4g} to {f:.4g})"):
        assert number in card


def test_a_card_of_a_sample_says_of_how_many_rows_and_how_to_draw_them_again() -> None:
    sampled = Sampled(rows_there=54321, strata=97, max_rows=1050, power=0.5, seed=3)
    told = manifest(provenance=Provenance(rows=1047, apps=13, nodes=17, settings={}, sampled=sampled))

    card = model_card(told)

    assert "a sample of 54,321 rows, drawn by 97 strata" in card
    assert "`--max-rows 1050`, power 0.5, seed 3" in card
    assert "a sample" not in model_card(manifest())
    assert numbers_in(card) <= numbers_of(json.loads(told.model_dump_json()))


def test_a_card_tells_uses_window_platforms_signs_bounds_and_how_to_make_it_again() -> None:
    card = model_card(manifest())

    for words in (
        "**Not for**: placing",
        "from 2026-03-01 07:08:09 to 2026-03-02 07:08:09 UTC",
        "CPU models: `epyc`",
        "| ours | 0.123 (0.051 to 0.234) | 0.934 (0.91 to 0.95) |",
        "apps never seen rests on 12 apps",
        "- hierarchical: 1.93",
        "- node_windows: 311",
        "fingerprint\n`def`, by the feature catalogue `abc`",
        "Settings: rounds 77, learning_rate 0.07.",
        "| `pressure_cpu` | `share of the node` | raises, or leaves as it is | the neighbours' use |",
        "while the container runs, after the decision |",
        "no row is known whose node was chosen at random",
    ):
        assert words in card


def test_a_card_tells_the_margins_that_are_served_and_not_those_that_are_not() -> None:
    margins = EntryMargins(
        level=0.9,
        floor=0.051,
        seen=0.52,
        unseen=0.53,
        cold=0.54,
        apps=(AppMargin(cluster="c", app="web", multiplier=0.55, windows=156.0),),
    )
    plain = entry(Calibration(0.9, 1.37, 1.93, 2.21, rows=1047, groups=5, node_windows=311))
    own = plain.model_copy(
        update={
            "margins": margins,
            "seen_share": 0.77,
            "files": {"mean": "m.onnx", "spread": "s.onnx", "familiar": "f.onnx"},
        }
    )

    card = model_card(manifest(models={"placement": own}))

    for words in (
        "floor: 0.051",
        "never seen: 0.53",
        "| `c` | `web` | 0.55 | 156 |",
        "- node: 2.21",
        "on 0.77 of the base",
    ):
        assert words in card
    assert "1.93" not in card
    assert "stands in" not in card


def test_baselines_that_hold_their_own_are_named() -> None:
    def metric(value: float, low: float | None = None) -> dict[str, Estimate]:
        beside = {} if low is None else {"above_ours": Estimate(value - 0.2, low, 0.3)}
        return {"mae_log": Estimate(value, value, value), **beside}

    found = {
        "ours": metric(0.2),
        "a": metric(0.19),
        "b": metric(0.25, -0.01),
        "c": metric(0.25, 0.01),
        "d": metric(0.25),
    }

    card = model_card(manifest(metrics={"tomorrow": found}))

    assert [name for name in "abcd" if f"`tomorrow`: `{name}` is no worse" in card] == ["a", "b"]


def test_too_few_apps_are_said_to_be_too_few() -> None:
    def with_groups(groups: int) -> str:
        few = Calibration(0.9, 1.0, 1.0, 1.0, rows=10, groups=groups, node_windows=1)
        return model_card(manifest(models={"placement": entry(few)}))

    assert "8 apps are too few to prove a bound of 0.9" in with_groups(8)
    assert "too few" not in with_groups(10)


def test_a_baseline_that_is_no_worse_is_named() -> None:
    found = manifest().metrics["leave_app_out"]
    beaten = {**found, "ridge": {"mae_log": Estimate(0.1, 0.09, 0.11)}}

    assert "`ridge` is no worse than ours (0.1 (0.09 to 0.11)" in model_card(
        manifest(metrics={"leave_app_out": beaten})
    )
    assert "no worse" not in model_card(manifest())


def test_what_an_older_manifest_does_not_tell_is_left_out() -> None:
    card = model_card(manifest(provenance=None, metrics={}))

    assert "rows of" not in card
    assert "Settings" not in card
    assert "Nothing was measured." in card


@pytest.mark.parametrize("feature", [f.name for f in (*FEATURES, *DIAGNOSIS_FEATURES)])
def test_every_column_of_both_models_has_a_meaning(feature: str) -> None:
    assert meaning(feature)


def test_a_trained_bundle_holds_its_card_and_verifies_it(learnt: Simulated, tmp_path: Path) -> None:
    config = TrainConfig(rounds=5, spread_rounds=5, folds=2)
    train_bundle(learnt.training, Registry(tmp_path), T0, {}, Effort(config=config))
    folder = tmp_path / f"{T0:%Y%m%dT%H%M%S}"

    bundle = load_bundle(folder, catalogue_hash())

    assert bundle.files[CARD].decode() == model_card(bundle.manifest)
    assert bundle.manifest.provenance == Provenance(
        rows=learnt.training.num_rows,
        apps=len(set(learnt.training["app"].to_pylist())),
        nodes=len(set(learnt.training["node"].to_pylist())),
        settings=vars(config),
    )
    (folder / CARD).write_text("# Better than it is\n")
    with pytest.raises(BundleCorrupt, match=CARD):
        load_bundle(folder, catalogue_hash())


@pytest.mark.parametrize(
    ("choice", "told"),
    [
        (EntryChoice(order=4, weight=0.7), "put together: by order 4, weight 0.7"),
        (EntryChoice(order=1, weight=0.7, knee=0.2), "put together: added up, slowing down from 0.2 on, weight 0.7"),
    ],
)
def test_it_tells_where_neighbours_do_not_simply_add_up(choice: EntryChoice, told: str) -> None:
    plain = manifest()
    entry = plain.models["diagnosis"].model_copy(update={"choice": choice})

    assert "put together" not in model_card(plain)
    assert told in model_card(manifest(models={"diagnosis": entry}))
