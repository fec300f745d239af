"""Card: what a bundle is for, what it learnt from, how good it is and where not, for people. From its manifest alone.

Every number is the manifest's; what the manifest does not contain is left out.
"""

from collections.abc import Iterator
from dataclasses import asdict
from math import exp

from features.schema.catalog import FEATURES, Feature
from features.training.diagnosis_rows import DIAGNOSIS as DIAGNOSIS_FEATURES
from features.training.diagnosis_rows import DURING
from models.bundle.leakage_guard import DIAGNOSIS, PLACEMENT
from models.bundle.manifest import EntryChoice, EntryMargins, Followed, Manifest, ModelEntry, Sampled
from models.calibration.conformal import Calibration
from models.metrics.errors_and_ranks import Estimate

CARD = "MODEL_CARD.md"
OURS = "ours"
USES = {
    PLACEMENT: (
        "Ranks nodes for a pending pod: its expected slowdown, a bound it stays "
        "below, and the interference cost to containers that already run there.",
        "explaining a slowdown that is there, pricing by the bound, moving containers without a person or a scheduler "
        "that decides, apps without a label.",
    ),
    DIAGNOSIS: (
        "Says which resource explains the slowdown of a container that is running, from what was measured meanwhile.",
        "placing: it reads what is known only afterwards. A cause that it names is a suspect, not a proof.",
    ),
}
KNOWN = {
    "profile": "the app's profile, as of the decision",
    "residents": "the residents' newest minutes that had arrived by the decision",
    "node": "the node's description, as of the decision",
    "during": "while the container runs, after the decision",
}
MEANINGS = {
    "missing_": "whether that pressure was not measured",
    "sensitive_early_": "sensitivity x the early part of the neighbours' use",
    "sensitive_late_": "sensitivity x the late part of the neighbours' use",
    "sensitive_": "sensitivity x the neighbours' use",
    "intense_": "own demand x the neighbours' use",
    "pressure_": "the neighbours' use",
    "max_neighbour_": "use of the busiest neighbour",
    "neighbours_be": "other best-effort containers on the node",
    "neighbours": "other containers on the node",
    "neighbour_run_delay": "how long the neighbours waited for a core",
    "sensitivity_": "the app's sensitivity to that resource",
    "demand_": "what one container of the app typically uses",
    "profile_windows": "how much is known of the app",
    "profile_": "typical of the app",
    "node_": "the node's hardware",
    "own_": "the container's own sign of contention or limits",
    "load_of_peak": "own load over the app's largest known before",
}
"""By the first of these that a name begins with."""
SIGNS = {1: "raises, or leaves as it is", -1: "lowers, or leaves as it is", 0: "either way"}
CATALOGUE: dict[str, Feature] = {f.name: f for f in (*FEATURES, *DIAGNOSIS_FEATURES)}
METRICS = ("mae_log", "above_ours", "spearman", "coverage90")


def model_card(manifest: Manifest) -> str:
    """The card of a bundle, Markdown.

    Args:
        manifest: as it is written; digests are not read.

    Returns:
        The text, the same for the same manifest. What an older manifest does not contain is left out.
    """
    lines = [
        f"# Model card of the bundle of {manifest.created_at:%Y-%m-%d %H:%M:%S} UTC",
        *_uses(manifest),
        *_trained_on(manifest),
        *_quality(manifest),
        *_calibrations(manifest),
        *_limits(manifest),
        *_reproduced(manifest),
        *_features(manifest),
    ]
    return "\n".join(lines) + "\n"


def _uses(manifest: Manifest) -> Iterator[str]:
    for name in manifest.models:
        for_what, not_for = USES.get(name, ("not described", "not described"))
        yield from ("", f"## Model `{name}`", "", f"**For**: {for_what}", "", f"**Not for**: {not_for}")


def _trained_on(manifest: Manifest) -> Iterator[str]:
    begin, end = manifest.training_window
    yield from ("", "## Trained on", "")
    yield f"- windows that ended from {begin:%Y-%m-%d %H:%M:%S} to {end:%Y-%m-%d %H:%M:%S} UTC"
    if (of := manifest.provenance) is not None:
        yield f"- {of.rows:,} rows of {of.apps:,} apps on {of.nodes:,} nodes"
        if of.sampled is not None:
            yield from _sampled(of.sampled)
    yield f"- CPU models: {', '.join(f'`{name}`' for name in manifest.platforms) or 'not known'}"


def _sampled(how: Sampled) -> Iterator[str]:
    yield f"- they are a sample of {how.rows_there:,} rows, drawn by {how.strata:,} strata of app, slowdown and"
    yield "  pressure; weights make up for those left out"


def _quality(manifest: Manifest) -> Iterator[str]:
    yield from ("", "## How good it is", "")
    yield "Each figure with its interval over what is independent, on rows the judged model never saw; `ours` is the"
    yield "model, the others are what it must beat. Terms: docs/evaluation.md."
    if not manifest.metrics:
        yield from ("", "Nothing was measured.")
    for split, found in manifest.metrics.items():
        shown = [name for name in METRICS if any(name in values for values in found.values())]
        yield from ("", f"### `{split}`", "", _row(["predictor", *shown]), _row(["---", *["---:"] * len(shown)]))
        for who, values in found.items():
            yield _row([who, *(_with_range(values.get(name)) for name in shown)])


def _calibrations(manifest: Manifest) -> Iterator[str]:
    for name, entry in manifest.models.items():
        yield from ("", f"## Bounds of `{name}`", "")
        if entry.margins is not None:
            yield from _margins(entry.margins)
            yield from ("", "For everybody on a node, and the counts that rests on (multipliers of spread):", "")
        else:
            yield from ("Multipliers of spread, and the counts they rest on:", "")
        for figure, value in asdict(entry.calibration).items():
            served = entry.margins is None or figure not in {"pooled", "hierarchical"}
            if served and isinstance(value, int | float):
                yield f"- {figure}: {_number(value)}"


def _margins(margins: EntryMargins) -> Iterator[str]:
    yield "One container's bound is its expectation and a multiple of spread + floor, by what is known of its app:"
    yield from ("", f"- floor: {_number(margins.floor)}, in log slowdown")
    yield f"- apps learnt from: {_number(margins.seen)}"
    yield f"- apps never seen: {_number(margins.unseen)}"
    yield f"- apps without a profile: {_number(margins.cold)}"
    if margins.followed is not None:
        yield from _followed(margins.followed)
    if margins.apps:
        yield from ("", _row(["own, in cluster", "app", "multiplier", "effective windows"]), _row(["---"] * 4))
        for app in margins.apps:
            yield _row([f"`{app.cluster}`", f"`{app.app}`", _number(app.multiplier), _number(app.windows)])


def _followed(followed: Followed) -> Iterator[str]:
    yield from (
        "",
        f"Labels of windows until {followed.until:%Y-%m-%d %H:%M} UTC stretched them since, by a factor:",
        "",
    )
    yield from (_row(["app is", "platform", "factor", "labels"]), _row(["---"] * 4))
    for one in followed.stretches:
        yield _row([one.tier, f"`{one.platform}`", _number(exp(one.log_stretch)), str(one.labels)])


def _together(choice: EntryChoice) -> str:
    how = "added up" if choice.order == 1 else f"by order {choice.order}"
    borne = f", slowing down from {_number(choice.knee)} on" if choice.knee else ""
    return f"{how}{borne}, weight {_number(choice.weight)}"


def _limits(manifest: Manifest) -> Iterator[str]:
    yield from ("", "## Limits", "")
    for name, entry in manifest.models.items():
        yield f"- `{name}`: what holds for apps never seen rests on {entry.calibration.groups} apps"
        if entry.choice is not None:
            yield f"- `{name}`: nodes are compared by neighbours' harm put together: {_together(entry.choice)}"
        if entry.seen_share is not None:
            share = _number(entry.seen_share)
            yield f"- `{name}`: apps with an own margin have trees of their own, on {share} of the base"
        if entry.margins is None and _too_few(entry.calibration):
            few = f"{entry.calibration.groups} apps are too few to prove a bound of {entry.calibration.level:g}"
            yield f"- `{name}`: {few} for apps never seen; the worst app seen stands in"
    yield "- hardware that is not among the CPU models above was never seen: figures say nothing of it"
    yield (
        "- no row is known whose node was chosen at random: figures say what went together, not what a placement would "
        "have caused"
    )
    for split, found in manifest.metrics.items():
        for other in _no_worse(found):
            yield (
                f"- `{split}`: `{other}` is no worse than ours ({_with_range(found[other]['mae_log'])} in log slowdown)"
            )


def _reproduced(manifest: Manifest) -> Iterator[str]:
    yield from ("", "## How to make it again", "")
    yield "`cohabit model train` on a lake whose training rows have the fingerprint"
    yield f"`{manifest.data_fingerprint}`, by the feature catalogue `{manifest.catalogue_hash}`."
    if manifest.provenance is not None:
        if (how := manifest.provenance.sampled) is not None:
            yield from ("", f"They are drawn by `--max-rows {how.max_rows}`, power {how.power:g}, seed {how.seed}.")
        if versions := manifest.provenance.versions:
            named = ", ".join(f"`{table}` {version}" for table, version in versions.items())
            yield from ("", f"Versions of the lake's tables: {named}.")
        settings = ", ".join(f"{k} {_number(v)}" for k, v in manifest.provenance.settings.items())
        yield from ("", f"Settings: {settings}.")


def _features(manifest: Manifest) -> Iterator[str]:
    for name, entry in manifest.models.items():
        yield from (
            "",
            f"## What `{name}` reads",
            "",
            "More of it raises the prediction, lowers it, or either:",
        )
        yield from ("", _row(["column", "unit", "more of it", "what", "known from"]), _row(["---"] * 5))
        yield from _columns(entry)


def _columns(entry: ModelEntry) -> Iterator[str]:
    for name, sign in zip(entry.features, entry.signs, strict=True):
        known = CATALOGUE.get(name)
        unit, when = (f"`{known.unit}`", KNOWN[known.known]) if known else ("", "")
        yield _row([f"`{name}`", unit, SIGNS[sign], meaning(name), when])


def meaning(name: str) -> str:
    """What a column says, in a few words; nothing where it is not of the catalogue."""
    bare = name.removeprefix(DURING)
    return next((words for start, words in MEANINGS.items() if bare.startswith(start)), "")


def _no_worse(found: dict[str, dict[str, Estimate]]) -> list[str]:
    """Other predictors that are at least as good as ours or not worse beyond their interval, the best first."""
    if OURS not in found:
        return []
    others = {who: values["mae_log"].value for who, values in found.items() if who != OURS and "mae_log" in values}
    return sorted((who for who in others if _holds_its_own(found, who)), key=lambda who: others[who])


def _holds_its_own(found: dict[str, dict[str, Estimate]], who: str) -> bool:
    compared = found[who].get("above_ours")
    as_good = found[who]["mae_log"].value <= found[OURS]["mae_log"].value
    return as_good or (compared is not None and compared.low <= 0)


def _too_few(calibration: Calibration) -> bool:
    """Whether there are fewer groups than can prove the level, see models.calibration.conformal."""
    return calibration.groups * (1 - calibration.level) < calibration.level


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _with_range(estimate: Estimate | None) -> str:
    if estimate is None:
        return ""
    return f"{_number(estimate.value)} ({_number(estimate.low)} to {_number(estimate.high)})"


def _number(value: float | str) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
