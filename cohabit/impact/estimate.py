"""Worth: decisions that were written down, what became of their pods by the lake, and what advice avoided. An edge."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from advisor.placement.decision_log import Advised, read_advised
from cohabit.config.errors import CohabitError
from features.columnar.arrow_columns import floats, micros
from features.columnar.windows import LABEL_US
from features.labels.violation_minutes import Measured, Outcomes, outcomes
from ingest.lake.tables import Lake
from models.impact.ab_estimate import Trial, Worth, chance_of_difference, worth

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
BEST_EFFORT = "BE"
COLUMNS = ("cluster", "node", "container", "qos", "window_start", "window_end", "log_slowdown")
DAY_US = 86_400_000_000
BATCH = 1000
"""Pods whose residents are looked at together."""
SEP = "\n"
Fate = Literal["with outcome", "not over yet", "not in the lake", "not measured"]
FATES: tuple[Fate, ...] = ("with outcome", "not over yet", "not in the lake", "not measured")
MISSING: tuple[Fate, ...] = ("not in the lake", "not measured")


@dataclass(frozen=True, slots=True)
class Rules:
    """What counts.

    Args:
        horizon: how long after its start a pod is looked at.
        limit: slowdown above which a minute counts, ratio.
    """

    horizon: timedelta = timedelta(minutes=60)
    limit: float = 1.25

    @property
    def windows(self) -> int:
        """The horizon in five-minute windows."""
        return max(1, round(self.horizon / timedelta(microseconds=LABEL_US)))


@dataclass(frozen=True, slots=True)
class Arm:
    """What became of the pods of one arm.

    Args:
        fates: how many pods by what became of them.
        complied: those with outcome that landed on the node that was rated best.
        outcome: mean violation-minutes of those with outcome.
        residents: latency-sensitive containers next to them.
        compared: those of the residents that were measured before and after.
    """

    fates: dict[Fate, int]
    complied: int
    outcome: float
    residents: int
    compared: int

    @property
    def pods(self) -> int:
        """All of the arm."""
        return sum(self.fates.values())

    @property
    def due(self) -> int:
        """Pods that should have an outcome."""
        return self.pods - self.fates["not over yet"]

    @property
    def missing(self) -> int:
        """Those of them that have none."""
        return sum(self.fates[fate] for fate in MISSING)


@dataclass(frozen=True, slots=True)
class Ledger:
    """What was found.

    Args:
        worth: effects.
        advised: that arm.
        holdout: the other.
        outside: pods that were decided while there was no holdout; they are left out.
        missing_chance: chance of arms that miss as much to differ by so much in what they miss.
        rules: what counted.
    """

    worth: Worth
    advised: Arm
    holdout: Arm
    outside: int
    missing_chance: float
    rules: Rules


@dataclass(frozen=True, slots=True)
class Pods:
    """n pods of the trial, with what became of them.

    Args:
        lines: the decision of each.
        fate: (n,) number in FATES.
        landed: where each landed, in the lake's words; empty where it is not there.
        found: (n,) outcomes; of no meaning where the fate is another than "with outcome".
    """

    lines: list[Advised]
    fate: Ints
    landed: list[str]
    found: Outcomes


def ledger(folder: Path, lake: Lake, rules: Rules) -> Ledger:
    """What following the advice avoided, by the decisions of a folder and the labels of a lake.

    Raises:
        CohabitError: no decision was written down, none is of a time with a holdout, a line is no decision, or the lake
            holds no labels since.
        ModelsError: an arm has too few pods with an outcome.
    """
    lines, outside = trial_lines(folder)
    labels = labels_since(lake, lines[0].at_us - LABEL_US * rules.windows)
    pods = looked_up(lines, labels, rules)
    advised, holdout = _arm(pods, holdout=False), _arm(pods, holdout=True)
    missing = chance_of_difference((advised.missing, holdout.missing), (advised.due, holdout.due))
    effects = worth(trial_of(pods, labels, rules), LABEL_US * rules.windows)
    return Ledger(effects, advised, holdout, outside, missing, rules)


def trial_lines(folder: Path) -> tuple[list[Advised], int]:
    """Decisions of pods that could have been in either arm, by time, and how many others there are.

    Raises:
        CohabitError: no decision was written down, none is of a time with a holdout, or a line is no decision.
    """
    try:
        lines = read_advised(folder)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise CohabitError(f"a line of the decision log {folder} cannot be read ({error}): remove its file") from error
    if not lines:
        raise CohabitError(
            f"the decision log {folder} is empty: run `cohabit serve` with COHABIT_ADVISOR__HOLDOUT_SHARE above 0 "
            "until schedulers have sent requests, or name the folder with --log"
        )
    within = [line for line in lines if 0 < line.holdout_share < 1 and line.candidates]
    if not any(line.held_out for line in within):
        raise CohabitError(
            f"the decision log {folder} has {len(lines):,} decisions but no holdout to compare with: run `cohabit "
            "serve` with COHABIT_ADVISOR__HOLDOUT_SHARE=0.05 for some days, then retry"
        )
    return within, len({(line.cluster, line.uid) for line in lines} - {(line.cluster, line.uid) for line in within})


def labels_since(lake: Lake, since_us: int) -> pa.Table:
    """Labels with numbers of their node, container and window.

    Raises:
        CohabitError: there are none.
    """
    labels = lake.read("labels", datetime.fromtimestamp(since_us / 1e6, UTC), columns=list(COLUMNS))
    if not labels.num_rows:
        raise CohabitError(
            f"the lake {lake.uri} has no labels since the first decision: run `cohabit ingest` and `cohabit "
            "features`, or name another lake"
        )
    keys = {name: pc.binary_join_element_wise(labels["cluster"], labels[name], SEP) for name in ("node", "container")}
    for name, column in keys.items():
        labels = labels.append_column(f"{name}_key", column)
    return labels


def looked_up(lines: Sequence[Advised], labels: pa.Table, rules: Rules) -> Pods:
    """What became of each pod: of its decisions the last one before it started counts."""
    container = labels["container_key"].combine_chunks().dictionary_encode()
    node = labels["node_key"].combine_chunks().dictionary_encode()
    number = micros(labels["window_start"]) // LABEL_US
    code = np.asarray(container.indices.to_numpy(), np.int64)
    place = np.asarray(node.indices.to_numpy(), np.int64)
    starts, first_row = _firsts(code, number)
    of = {name: at for at, name in enumerate(container.dictionary.to_pylist())}
    chosen = _chosen(lines, of, starts)
    pod = np.array([of.get(_key(line), -1) for line in chosen], np.int64)
    seen = pod >= 0
    start, landed = starts[pod], place[first_row[pod]]
    last = _last_by_cluster(labels)
    ends = np.array([last.get(line.cluster, 0) for line in chosen], np.int64)
    decided = np.array([line.at_us // LABEL_US for line in chosen], np.int64)
    waits = np.where(seen, start, decided + 1) + rules.windows > ends
    over = seen & ~waits
    windows = _windows(labels, place, code, number, rules)
    parts = [outcomes(windows, pod[at], landed[at], start[at], horizon=rules.windows) for at in _batches(over)]
    found = _spread(parts, over)
    best_effort = np.array([line.best_effort for line in chosen])
    measured = best_effort | np.isfinite(found.own)
    fate = np.select([waits, ~seen, ~measured], [FATES.index(f) for f in FATES[1:]], 0)
    names = node.dictionary.to_pylist()
    return Pods(chosen, fate, [names[at] if there else "" for at, there in zip(landed, seen, strict=True)], found)


def _key(line: Advised) -> str:
    return f"{line.cluster}{SEP}{line.uid}"


def _firsts(code: Ints, number: Ints) -> tuple[Ints, Ints]:
    """Number of each container's first window, and its row."""
    order = np.lexsort([number, code])
    _, first = np.unique(code[order], return_index=True)
    return number[order[first]], order[first]


def _chosen(lines: Sequence[Advised], of: dict[str, int], starts: Ints) -> list[Advised]:
    """The last decision of each pod before its first window ended."""
    kept: dict[str, Advised] = {}
    for line in lines:
        at = of.get(_key(line))
        if at is None or line.at_us < (int(starts[at]) + 1) * LABEL_US:
            kept[_key(line)] = line
    return list(kept.values())


def _last_by_cluster(labels: pa.Table) -> dict[str, int]:
    """Number of the window after the last one of each cluster."""
    newest = labels.group_by("cluster").aggregate([("window_end", "max")])
    return dict(
        zip(newest["cluster"].to_pylist(), (micros(newest["window_end_max"]) // LABEL_US).tolist(), strict=True)
    )


def _windows(labels: pa.Table, place: Ints, code: Ints, number: Ints, rules: Rules) -> Measured:
    slowdown = floats(labels["log_slowdown"])
    sensitive = np.asarray(pc.fill_null(pc.not_equal(labels["qos"], BEST_EFFORT), fill_value=True))
    return Measured(place, code, number, sensitive, np.isfinite(slowdown), slowdown > np.log(rules.limit))


def _batches(over: NDArray[np.bool_]) -> Iterator[Ints]:
    rows = np.flatnonzero(over)
    for first in range(0, max(1, len(rows)), BATCH):
        yield rows[first : first + BATCH]


def _spread(parts: Sequence[Outcomes], over: NDArray[np.bool_]) -> Outcomes:
    """Outcomes of all pods, from those of pods whose horizon is over."""

    def whole(values: list[NDArray[np.generic]], missing: float) -> Floats:
        column = np.full(len(over), missing)
        column[over] = np.concatenate(values)
        return column

    return Outcomes(
        whole([part.own for part in parts], np.nan),
        whole([part.neighbours for part in parts], np.nan),
        whole([part.residents for part in parts], 0).astype(np.int64),
        whole([part.compared for part in parts], 0).astype(np.int64),
    )


def _outcome(pods: Pods) -> tuple[Floats, NDArray[np.bool_]]:
    """(n,) violation-minutes, and whether each pod landed on the node advised first."""
    best_effort = np.array([line.best_effort for line in pods.lines])
    nodes = [f"{line.cluster}{SEP}{line.drawn or line.best}" for line in pods.lines]
    own = np.where(best_effort, 0.0, pods.found.own)
    return own + pods.found.neighbours, np.array(nodes) == np.array(pods.landed)


def _arm(pods: Pods, *, holdout: bool) -> Arm:
    here = np.array([line.held_out is holdout for line in pods.lines])
    outcome, complied = _outcome(pods)
    whole = here & (pods.fate == 0)
    return Arm(
        {fate: int((here & (pods.fate == number)).sum()) for number, fate in enumerate(FATES)},
        int(complied[whole].sum()),
        float(outcome[whole].mean()) if whole.any() else float("nan"),
        int(pods.found.residents[whole].sum()),
        int(pods.found.compared[whole].sum()),
    )


def trial_of(pods: Pods, labels: pa.Table, rules: Rules) -> Trial:
    """The pods with an outcome, as arrays."""
    whole = pods.fate == 0
    lines = [line for line, there in zip(pods.lines, whole, strict=True) if there]
    outcome, complied = _outcome(pods)
    return Trial(
        np.array([not line.held_out for line in lines], np.bool_),
        np.array([1.0 - line.holdout_share for line in lines]),
        np.array([line.sampling_rate for line in lines]),
        outcome[whole],
        complied[whole],
        covariates(lines, labels, rules),
        np.array([line.at_us for line in lines], np.int64),
    )


def covariates(lines: Sequence[Advised], labels: pa.Table, rules: Rules) -> Floats:
    """(n, 6) what was known of each decision before its arm was: class, costs, time of day, and how its cluster was."""
    if not lines:
        return np.zeros((0, 6))
    angle = 2 * np.pi * np.array([line.at_us % DAY_US for line in lines]) / DAY_US
    least = [line.costs[line.candidates.index(line.best)] for line in lines]
    mean = [float(np.mean(line.costs)) for line in lines]
    before = violating_before(lines, labels, rules)
    return np.column_stack(
        [[float(line.best_effort) for line in lines], least, mean, np.sin(angle), np.cos(angle), before]
    )


def violating_before(lines: Sequence[Advised], labels: pa.Table, rules: Rules) -> Floats:
    """(n,) share of its cluster's measured windows above the limit within a horizon before; the mean where unknown."""
    slowdown, ends = floats(labels["log_slowdown"]), micros(labels["window_end"])
    cluster = np.array(labels["cluster"].to_pylist())
    share, at_us = np.full(len(lines), np.nan), np.array([line.at_us for line in lines], np.int64)
    mine = np.array([line.cluster for line in lines])
    for name in np.unique(mine).tolist():
        rows = np.flatnonzero((cluster == name) & np.isfinite(slowdown))
        rows = rows[np.argsort(ends[rows], kind="stable")]
        above = np.append(0, np.cumsum(slowdown[rows] > np.log(rules.limit)))
        here = mine == name
        horizon_us = LABEL_US * rules.windows
        low, high = (np.searchsorted(ends[rows], at, "right") for at in (at_us[here] - horizon_us, at_us[here]))
        share[here] = np.where(high > low, (above[high] - above[low]) / np.maximum(high - low, 1), np.nan)
    known = share[np.isfinite(share)]
    return np.where(np.isfinite(share), share, known.mean() if len(known) else 0.0)
