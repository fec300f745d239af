"""Questions: every way to ask how good a model is that docs/evaluation.md lists, or why the data do not allow it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from features.columnar.arrow_columns import Floats, floats, micros
from features.columnar.group_means import group_codes
from features.contention.node_state import is_best_effort
from features.schema.catalog import DEMANDS, PRESSURES
from models.data.splits import Split, as_many_origins, beyond, held_apart, leave_group_out, random_rows
from models.errors import InconsistentDataset
from models.training.trainer import Question

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
DAY_US = 86_400 * 1_000_000
HIGH_PRESSURE = 0.8
"""Quantile of total pressure above which nothing is learnt when extrapolation is judged."""
RANDOMISED = "randomised"
"""Column of flags, in data that have it: rows whose node was chosen at random."""


@dataclass(frozen=True)
class Keys:
    """What ties the rows of table `training` to each other, (n,) each.

    Args:
        time: end of the window, microseconds.
        app: cluster and app.
        node: cluster and node.
        platform: CPU model; rows of unknown platforms share one code.
        app_node_day: app, node and day of UTC: what is independent of other rows where apps may be seen before.
        decision: app and window.
        combination: class of the victim and class of its neighbours, see `combinations`.
        pressure: sum of the known pressures, shares of the node.
        randomised: whether the node was chosen at random.
    """

    time: Ints
    app: Ints
    node: Ints
    platform: Ints
    app_node_day: Ints
    decision: Ints
    combination: Ints
    pressure: Floats
    randomised: Flags


@dataclass(frozen=True)
class Depth:
    """How finely the data are split: folds of apps and of other groups, origins in time, and a seed for random rows."""

    app_folds: int = 6
    folds: int = 3
    origins: int = 4
    seed: int = 0


@dataclass(frozen=True)
class Asked:
    """One question of the protocol, or why it has no answer.

    Args:
        id: S0 to S7, SC for apps that never ran.
        title: what is asked, in words.
        rule: what is learnt from and what is judged.
        cluster: (n,) what is independent of the rest.
        question: the splits; None where the data do not allow it.
        reason: why not.
    """

    id: str
    title: str
    rule: str
    cluster: Ints
    question: Question | None
    reason: str = ""


def read_keys(table: pa.Table) -> Keys:
    """Keys of the rows of table `training`, in their order."""
    time = micros(table["window_end"])
    named = table.append_column("day", pa.array(time // DAY_US))
    flagged = table[RANDOMISED].to_numpy() if RANDOMISED in table.column_names else np.zeros(table.num_rows)
    return Keys(
        time=time,
        app=group_codes(table, ["cluster", "app"]),
        node=group_codes(table, ["cluster", "node"]),
        platform=group_codes(table, ["platform"]),
        app_node_day=group_codes(named, ["cluster", "app", "node", "day"]),
        decision=group_codes(table, ["cluster", "app", "window_end"]),
        combination=combinations(table),
        pressure=np.nansum(_columns(table, PRESSURES), axis=1),
        randomised=np.asarray(flagged, np.bool_),
    )


def combinations(table: pa.Table) -> Ints:
    """Which kind of victim is co-located with which kind of neighbours.

    Args:
        table: rows of `training`.

    Returns:
        (n,) code of the victim's class (best effort or not, and the resource its profile uses most compared with the
        median row) with the neighbours' (whether best effort is the majority, and the resource they press on most
        compared with the median row). Nothing known is a class too.

    Raises:
        Nothing.

    Source: ours, docs/evaluation.md.
    """
    majority = floats(table["neighbours_be"]) > floats(table["neighbours"]) / 2
    victim = _foremost(_columns(table, DEMANDS))
    neighbours = _foremost(_columns(table, PRESSURES))
    whole = np.column_stack([is_best_effort(table["qos"]), victim, majority, neighbours]).astype(np.int64)
    return np.unique(whole, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)


def protocol(keys: Keys, depth: Depth) -> list[Asked]:
    """Every question of docs/evaluation.md, those that the data do not allow with the reason, S1 and S2 first."""
    return [
        _asked(id_, title, rule, cluster=cluster(keys), splits=splits, given=(keys, depth))
        for id_, (title, rule, cluster, splits) in QUESTIONS.items()
    ]


def _asked(id_: str, title: str, rule: str, *, cluster: Ints, splits: "Splits", given: tuple[Keys, Depth]) -> Asked:
    try:
        question = Question(splits(*given), cold=id_ == "SC")
    except InconsistentDataset as error:
        return Asked(id_, title, rule, cluster, None, f"{error.problem}: {error.remedy}")
    return Asked(id_, title, rule, cluster, question)


Splits = Callable[[Keys, Depth], list[Split]]
Cluster = Callable[[Keys], Ints]


def _forward(keys: Keys, depth: Depth) -> list[Split]:
    return as_many_origins(keys.time, most=depth.origins)


def _platforms(keys: Keys, _: Depth) -> list[Split]:
    return leave_group_out(keys.platform, folds=len(np.unique(keys.platform)))


def _randomised(keys: Keys, _: Depth) -> list[Split]:
    if not keys.randomised.any():
        raise InconsistentDataset("no randomised rows", "no choice of a node was flagged as random")
    return [held_apart(keys.randomised)]


def _together(keys: Keys) -> Ints:
    return keys.app_node_day


def _apps(keys: Keys) -> Ints:
    return keys.app


QUESTIONS: Mapping[str, tuple[str, str, Cluster, Splits]] = {
    "S1": ("tomorrow", "learn from the past, judge what came after, 10 minutes between", _together, _forward),
    "S2": (
        "unseen apps",
        "judge each app by a model that never saw it; its profile is known",
        _apps,
        lambda keys, depth: leave_group_out(keys.app, folds=depth.app_folds),
    ),
    "SC": (
        "apps that never ran",
        "as S2, and nothing is known of the app but its team",
        _apps,
        lambda keys, depth: leave_group_out(keys.app, folds=depth.app_folds),
    ),
    "S3": (
        "unseen nodes",
        "judge each node by a model that never saw it",
        lambda keys: keys.node,
        lambda keys, depth: leave_group_out(keys.node, folds=depth.folds),
    ),
    "S4": ("unseen hardware", "judge each CPU model by a model that never saw it", _apps, _platforms),
    "S5": (
        "unseen mixes",
        "judge kinds of victims co-located with kinds of neighbours that were never seen together",
        _together,
        lambda keys, depth: leave_group_out(keys.combination, folds=depth.folds),
    ),
    "S6": (
        "denser packing",
        "learn up to the 80th percentile of total pressure, judge above it",
        _together,
        lambda keys, _: [beyond(keys.pressure, HIGH_PRESSURE)],
    ),
    "S7": ("choices made at random", "judge rows whose node was drawn, never learn from them", _together, _randomised),
    "S0": (
        "random rows",
        "a leak alarm and no measure of anything: neighbours in time are on both sides",
        _together,
        lambda keys, depth: random_rows(len(keys.time), folds=depth.folds, rng=np.random.default_rng(depth.seed)),
    ),
}
"""Title, rule, what is independent, splits."""


def _columns(table: pa.Table, names: tuple[str, ...]) -> Floats:
    return np.column_stack([floats(table[name]) for name in names])


def _foremost(shares: Floats) -> Ints:
    """(n,) column in which a row stands out most from the median of those above zero; -1 where none is known."""
    known = np.nan_to_num(shares)
    used = known > 0
    typical = np.array([np.median(column[column > 0]) if (column > 0).any() else 1.0 for column in known.T])
    return np.where(used.any(axis=1), (known / typical).argmax(axis=1), -1)
