"""Changes: what of a newer snapshot would be scored differently. Kernel."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from advisor.cluster.snapshot import Snapshot

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


def rows_before(old: Snapshot, new: Snapshot) -> Ints:
    """(n,) row that each node of the newer snapshot had in the older one, -1 where it was not there."""
    return _places(new.nodes, old.nodes)


def same_apps(old: Snapshot, new: Snapshot) -> Flags:
    """(a,) of the newer snapshot's apps: whether it was there before, with the same profile on every platform."""
    app, platform = _places(new.apps, old.apps), _places(new.platforms, old.platforms)
    if old.profile.shape[2] != new.profile.shape[2]:
        return np.zeros(len(new.apps), np.bool_)
    there = old.profile[np.maximum(app, 0)][:, np.maximum(platform, 0)]
    there = np.where((platform >= 0)[:, None], there, np.nan)
    return (
        (app >= 0)
        & _equal(there[:, :, :-1], new.profile[:, :, :-1])
        & _equal(np.nan_to_num(there[:, :, -1]), np.nan_to_num(new.profile[:, :, -1]))
    )


def same_prior(old: Snapshot, new: Snapshot) -> dict[str, bool]:
    """By team of the newer snapshot, and "" for all others, whether the same is expected of its unknown apps."""
    names = (*new.teams, "")
    if not (old.cold_start_prior.size and new.cold_start_prior.size):
        return dict.fromkeys(names, old.cold_start_prior.size == new.cold_start_prior.size)
    team, platform = _places(names, (*old.teams, "")), _places(new.platforms, old.platforms)
    if old.cold_start_prior.shape[2] != new.cold_start_prior.shape[2]:
        return dict.fromkeys(names, False)
    there = old.cold_start_prior[np.maximum(team, 0)][:, np.maximum(platform, 0)]
    there = np.where((platform >= 0)[:, None], there, np.nan)
    return dict(zip(names, ((team >= 0) & _equal(there, new.cold_start_prior)).tolist(), strict=True))


def same_nodes(old: Snapshot, new: Snapshot) -> Flags:
    """Nodes with unchanged scores, except for pending pods whose app or cold-start prior changed.

    Args:
        old: an earlier snapshot.
        new: a later one of the same cluster.

    Returns:
        (n,) of the newer one's nodes: whether capacity, platform, offer and residents, their apps with their profiles,
        classes, cpusets and use, and what is expected of apps without a name, are equal to the bit, missing values
            being equal.

    Raises:
        Nothing.

    Source: ours; a score depends on nothing else, see advisor.scoring.scorer.
    """
    before = rows_before(old, new)
    counts, at = np.diff(new.first), np.maximum(before, 0)
    if not len(old.nodes):
        return np.zeros(len(new.nodes), np.bool_)
    same = (before >= 0) & (counts == np.diff(old.first)[at]) & (new.node_known == old.node_known[at])
    same &= _renamed(old.node_platform, old.platforms, new.platforms)[at] == new.node_platform
    same &= _equal(old.node_capacity[at], new.node_capacity) & _equal(old.node_facts[at], new.node_facts)
    offered = [of.node_offered if of.node_offered.size else np.full(len(of.nodes), np.nan) for of in (old, new)]
    same &= _equal(offered[0][at], offered[1])
    same &= _same_residents(old, new, at, same)
    return np.asarray(same)


def _same_residents(old: Snapshot, new: Snapshot, before: Ints, asked: Flags) -> Flags:
    """(n,) whether the residents of the asked nodes, equally many, are the same one after the other."""
    nodes = np.flatnonzero(asked)
    counts = np.diff(new.first)[nodes]
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    here, there = (np.repeat(first, counts) + within for first in (new.first[nodes], old.first[before[nodes]]))
    app = np.asarray(new.resident_app)[here]
    alike: Flags = np.append(same_apps(old, new), same_prior(old, new)[""])[app]
    alike &= _renamed(old.resident_app, old.apps, new.apps)[there] == app
    alike &= _equal(old.resident_use[there], new.resident_use[here])
    alike &= old.resident_best_effort[there] == new.resident_best_effort[here]
    alike &= np.array(old.cpusets, object)[there] == np.array(new.cpusets, object)[here]
    same = np.zeros(len(asked), np.bool_)
    same[nodes] = np.bincount(np.repeat(np.arange(len(nodes)), counts), ~alike, len(nodes)) == 0
    return same


def _places(names: Sequence[str], among: Sequence[str]) -> Ints:
    """(n,) where each name is among others, -1 where it is not."""
    if names == among:
        return np.arange(len(names))
    at = {name: row for row, name in enumerate(among)}
    return np.array([at.get(name, -1) for name in names], np.int64)


def _renamed(codes: NDArray[np.integer], names: Sequence[str], newer: Sequence[str]) -> Ints:
    """(n,) codes into other names; -1 stays, and a name that is gone is no code at all."""
    places = _places(names, newer)
    renamed: Ints = np.append(np.where(places < 0, -2, places), -1)[codes]
    return renamed


def _equal(old: NDArray[np.floating], new: NDArray[np.floating]) -> Flags:
    """(n,) whether all values of each row are equal or both missing."""
    alike = np.asarray((old == new) | (np.isnan(old) & np.isnan(new)))
    return np.asarray(alike.all(axis=tuple(range(1, alike.ndim))))
