"""Gate and promotion: a challenger against the champion on labels unseen by both. An edge."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from advisor.cluster.pending_pod import PodClass
from advisor.cluster.snapshot import Snapshot
from advisor.scoring.loaded_model import open_model, scorer_over
from advisor.scoring.score_table import score_columns
from advisor.scoring.scorer import ModelScorer
from features.schema.catalog import catalogue_hash
from ingest.lake.tables import Lake
from models.bundle.bundle import Bundle, fingerprint, load_bundle
from models.bundle.leakage_guard import PLACEMENT
from models.bundle.manifest import Manifest
from models.errors import ModelsError
from models.estimator.predictor import open_predictor
from models.evaluation.promotion_gate import FEWEST_GROUPS, FEWEST_LABELS, Judged, check_all
from models.evaluation.protocols import read_keys
from models.evaluation.scorecard import best_baseline
from models.evaluation.served_replay import AsServed, as_served
from models.registry.gate_result import Verdict
from models.registry.registry import Registry, trained_name
from models.registry.registry_log import Event, note

MAX_LABELS = 200_000
"""The newest labels are judged, so that a long absence costs no memory."""
OURS = "ours"
WORSE_THAN_BASELINE = 1.1
"""Of the best baseline's error, by the challenger's own evaluation."""
MAX_CLASSES, MAX_NODES = 50, 500
MORE_SILENT = 0.1
"""Share of apps without any node above 0 points that a challenger may have more than the champion."""
MICROSECOND = timedelta(microseconds=1)
MARGINS_BACK = "the same models, with the margins of that bundle"


@dataclass(frozen=True, slots=True)
class Shadow:
    """Scores of the challenger compared with those of the champion, over the newest snapshot.

    Args:
        classes: apps asked for.
        nodes: nodes offered.
        other_winner: share of apps for which another node would be best, ties counted as the same.
        moved: mean difference of points.
        zeros: share of nodes with 0 points, by champion and by challenger.
        silent: share of apps for which every node has 0 points, by champion and by challenger.
    """

    classes: int
    nodes: int
    other_winner: float
    moved: float
    zeros: tuple[float, float]
    silent: tuple[float, float]


def judge(lake: Lake, registry: Registry, name: str, now: datetime, snapshot: Snapshot | None = None) -> Verdict:
    """Compare a challenger with the champion, and keep the gate result.

    Args:
        lake: with table `training`.
        registry: holds both.
        name: of the challenger.
        now: time of the verdict.
        snapshot: what both are also tried on; None leaves that out.

    Returns:
        The verdict, which stands in the registry from now on; of what is current it is passed, and is not kept.

    Raises:
        ModelsError: one of the two cannot be judged.
        ModelsError, AdvisorError: the challenger could not be served.
    """
    challenger = _usable(registry, registry.bundle(name))
    current = registry.current()
    champion = None if current is None else load_bundle(current, catalogue_hash(), registry.trust)
    refusals = [*_by_its_own_evaluation(challenger.manifest)]
    if champion is None:
        contents = fingerprint(challenger)
        verdict = Verdict(challenger=name, contents=contents, champion=None, judged_at=now, refusals=tuple(refusals))
    elif _same_models(challenger, champion):
        return Verdict(challenger=name, champion=name, judged_at=now)  # nothing to decide, so nothing is kept
    else:
        if snapshot is not None:
            refusals += _by_shadow(shadow(snapshot, registry, champion.directory, challenger.directory))
        verdict = _judged(lake, challenger, champion, now, refusals)
    registry.keep(verdict)
    return verdict


@dataclass(frozen=True, slots=True)
class Hand:
    """Who changes what is current, and when."""

    by: str
    at: datetime


def promote(registry: Registry, name: str, hand: Hand, *, forced: str | None = None) -> bool:
    """Make a challenger current that passed its gates against what is current; whether anything changed.

    Where margins of the current models followed labels, the name of the bundle that was trained puts its margins back:
    it needs no verdict, since its graphs are those that are current, byte by byte.

    Args:
        registry: holds both.
        name: of the challenger.
        hand: whose.
        forced: why it is promoted whatever the verdict; None where it is not.

    Raises:
        ModelsError, AdvisorError: it could not be served, even when forced.
        ModelsError: there is no verdict on this place, or one on what was called so before, or it was not passed;
            another bundle became current meanwhile; it is current, but the history lacks it.
    """
    current = registry.current()
    now = None if current is None else current.name
    meant = registry.bundle(name)
    if now == name:
        return False
    _usable(registry, meant)
    same = now is not None and _same_models(meant, registry.bundle(now))
    if forced is None and not same:
        _must_have_passed(registry, meant, now)
    registry.replace(now, name)
    what: Literal["promoted", "forced"] = "promoted" if forced is None else "forced"
    why = forced or (MARGINS_BACK if same else "")
    note(registry, Event(at=hand.at, what=what, bundle=name, before=now, by=hand.by, why=why))
    return True


def roll_back(registry: Registry, hand: Hand) -> tuple[str, str]:
    """Return to the models before, and refuse the present ones from now on; names of both.

    Raises:
        ModelsError: there are none; they are current again, but the history lacks it.
        ModelsError, AdvisorError: they could not be served; nothing changes.
    """
    current = registry.current()
    left = trained_name(current.name) if current is not None else ""
    said = f"it was current until it was rolled back at {hand.at:%Y-%m-%d %H:%M} UTC"

    def refused_from_now_on(back: Bundle) -> None:
        _usable(registry, back)
        if left in registry.names():
            champion = trained_name(back.directory.name)
            registry.keep(Verdict(challenger=left, champion=champion, judged_at=hand.at, refusals=(said,)))

    back = registry.rollback(refused_from_now_on)
    note(registry, Event(at=hand.at, what="rolled back", bundle=back.name, before=left, by=hand.by))
    return left, back.name


def _usable(registry: Registry, bundle: Bundle) -> Bundle:
    """The bundle, once it was opened and asked as `cohabit serve` does."""
    open_model(bundle.directory, registry.trust)
    return bundle


def shadow(snapshot: Snapshot, registry: Registry, champion: Path, challenger: Path) -> Shadow:
    """Score a snapshot's apps on its nodes by both; nothing is served."""
    classes = [PodClass(app, best_effort=False) for app in snapshot.apps[:MAX_CLASSES]]
    known = np.flatnonzero(snapshot.node_known)
    nodes = known[np.linspace(0, len(known) - 1, min(MAX_NODES, len(known))).astype(np.int64)].astype(np.int32)
    scored = [score_columns(_scorer(snapshot, registry, bundle), classes, nodes) for bundle in (champion, challenger)]
    if not classes or not len(nodes):
        return Shadow(len(classes), len(nodes), 0.0, 0.0, (0.0, 0.0), (0.0, 0.0))
    theirs, ours = scored
    best = theirs.points[np.arange(len(classes)), ours.cost.argmin(axis=1)] == theirs.points.max(axis=1)
    moved = np.abs(ours.points.astype(np.int64) - theirs.points.astype(np.int64)).mean()
    zeros = float((theirs.points == 0).mean()), float((ours.points == 0).mean())
    silent = float((theirs.points.max(axis=1) == 0).mean()), float((ours.points.max(axis=1) == 0).mean())
    return Shadow(len(classes), len(nodes), float(1.0 - best.mean()), float(moved), zeros, silent)


def _scorer(snapshot: Snapshot, registry: Registry, bundle: Path) -> ModelScorer:
    return scorer_over(snapshot, open_model(bundle, registry.trust))


def _same_models(meant: Bundle, current: Bundle) -> bool:
    """Whether a bundle is what is current, or what that was before margins followed labels; by its graphs too."""
    name, now = meant.directory.name, current.directory.name
    return name in {now, trained_name(now)} and _graphs(meant) == _graphs(current)


def _graphs(bundle: Bundle) -> dict[str, str]:
    """SHA-256 of each model's files."""
    manifest = bundle.manifest
    return {file: manifest.sha256[file] for model in manifest.models.values() for file in model.files.values()}


def _must_have_passed(registry: Registry, meant: Bundle, current: str | None) -> None:
    name = meant.directory.name
    verdict = registry.verdict(name)
    if verdict is None:
        raise _not_judged(name, "it was never judged")
    if verdict.refusals:
        raise ModelsError(
            f"{name} may not become current: {'; '.join(verdict.refusals)}. What is current stays; --force REASON "
            "overrides"
        )
    if verdict.contents != fingerprint(meant):
        raise _not_judged(name, "it holds something else than what was judged under its name")
    champion = None if current is None else trained_name(current)
    if verdict.champion != champion:
        against = verdict.champion or "an empty registry"
        raise _not_judged(name, f"it was judged against {against}, and {champion or 'nothing'} is current")


def _judged(lake: Lake, challenger: Bundle, champion: Bundle, now: datetime, refusals: list[str]) -> Verdict:
    since = max(bundle.manifest.training_window[1] for bundle in (challenger, champion))
    names = {
        "challenger": challenger.directory.name,
        "contents": fingerprint(challenger),
        "champion": trained_name(champion.directory.name),
    }
    table = labels_since(lake, since, now)
    keys = read_keys(table) if table.num_rows else None
    groups = 0 if keys is None else len(np.unique(keys.app_node_day))
    if keys is None or table.num_rows < FEWEST_LABELS or groups < FEWEST_GROUPS:
        few = f"{table.num_rows:,} labels of {groups} pairs of app and node came after {since:%Y-%m-%d %H:%M} UTC"
        needed = f"{FEWEST_LABELS} labels of {FEWEST_GROUPS} pairs are needed"
        more = f"{few}, until when one of the two learnt; {needed}"
        common = {"labels": table.num_rows, "groups": groups, "refusals": (*refusals, more)}
        return Verdict.model_validate({**names, "judged_at": now, **common})
    of = Judged(keys.app_node_day, keys.app, keys.decision, keys.node)
    said = [served_by(bundle, table, followed=False) for bundle in (challenger, champion)]
    checks = check_all(said[0], said[1], of, np.random.default_rng(0))
    worse = [
        f"{check.name}: {check.challenger:.4f} against {check.champion:.4f}, worse by {check.worse.value:.4f} "
        f"({check.worse.low:.4f} to {check.worse.high:.4f})"
        for check in checks
        if not check.passed
    ]
    window = pc.min_max(table["window_end"]).as_py()
    return Verdict(
        challenger=names["challenger"],
        contents=names["contents"],
        champion=names["champion"],
        judged_at=now,
        since=window["min"].astimezone(UTC),
        until=window["max"].astimezone(UTC),
        labels=table.num_rows,
        groups=groups,
        checks=checks,
        refusals=(*refusals, *worse),
    )


def labels_since(lake: Lake, since: datetime, now: datetime, most: int = MAX_LABELS) -> pa.Table:
    """Training rows of windows that ended later and are over, the newest ones where there are more.

    What a clock that is ahead has dated later than now would count as the newest of all until then.
    """
    table = lake.read("training", since + MICROSECOND, now + MICROSECOND)
    return table.slice(max(0, table.num_rows - most))


def served_by(bundle: Bundle, table: pa.Table, *, followed: bool) -> AsServed:
    """What a bundle's placement model says of training rows, with margins that followed labels or as trained."""
    entry = bundle.entry_of(PLACEMENT)
    if not followed and entry.margins is not None:
        entry = entry.model_copy(update={"margins": entry.margins.model_copy(update={"followed": None})})
    return as_served(entry, open_predictor(bundle, PLACEMENT), table)


def _by_its_own_evaluation(manifest: Manifest) -> Iterator[str]:
    for question in ("time_forward", "leave_app_out"):
        metrics = manifest.metrics.get(question, {})
        if OURS not in metrics or len(metrics) < 2:
            continue
        best = best_baseline(metrics)
        ours, theirs = metrics[OURS]["mae_log"], metrics[best]["mae_log"]
        if ours.value > WORSE_THAN_BASELINE * theirs.value:
            yield f"by its own evaluation ({question}) {best} errs {theirs.value:.3f}, it {ours.value:.3f}"


def _by_shadow(found: Shadow) -> Iterator[str]:
    if found.silent[1] > found.silent[0] + MORE_SILENT:
        yield (
            f"over the newest snapshot it would have no node for {found.silent[1]:.0%} of apps, what is current for "
            f"{found.silent[0]:.0%}"
        )


def _not_judged(name: str, reason: str) -> ModelsError:
    return ModelsError(
        f"{name} may not become current: {reason}; run `cohabit model gate {name}`, or say why with --force REASON"
    )
