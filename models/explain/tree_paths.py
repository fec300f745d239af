"""Paths: from the root of each tree to each of its leaves, as the flat tables that attribution reads. Kernel."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.forms.tree_arrays import Forest, absorb_zero_flush

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Alike:
    """All paths that split on the same number k of different features, p paths."""

    step: Ints
    """(k, p) a path's steps, as rows of `Paths.feature`."""
    share: Floats
    """(k, p, 1) of the training rows that came to a step's splits, how many went the path's way."""
    leaf_value: Floats
    """(p,)"""
    at: Floats
    """(q,) points in (0, 1) that integrate polynomials of degree k - 1 exactly, (k + 1) // 2 of them."""
    weight: Floats
    """(q,) of these points."""


@dataclass(frozen=True)
class Paths:
    """A forest and its paths. A step is all that a path asks of one feature: one split of it, or several.

    Places number the nodes of the forest, then its leaves.
    """

    forest: Forest
    threshold: Floats
    """(nodes,) as `absorb_zero_flush` moves them."""
    children: Ints
    """(nodes, 2) the places left and right of each node."""
    value: Floats
    """(places,) the mean prediction of the tree over the training rows that came by; a leaf's is its value."""
    expected: float
    """The mean prediction of all trees: the sum of the roots' values."""
    node: Ints
    """(edges,) the split above each edge, edges ordered by step."""
    goes_left: Flags
    """(edges,) which way the path leaves that split."""
    first_edge: Ints
    """(steps,) where each step's edges begin."""
    feature: Ints
    """(steps,) the feature that a step asks for."""
    alike: tuple[Alike, ...]


def paths_of(forest: Forest) -> Paths:
    """Prepare a forest for attribution; 300 trees of 31 leaves take some 10 ms.

    Args:
        forest: trees whose leaves all have a cover of at least 1.

    Returns:
        Its paths. A tree that never splits has no steps, so that nothing is attributed to it.

    Raises:
        Nothing.

    Source: paths with merged features, Mitchell et al., "GPUTreeShap", PeerJ Computer Science 2022.
    """
    nodes = len(forest.feature)
    children = np.stack([_place(forest.left, nodes), _place(forest.right, nodes)], axis=1)
    leaf, below, node = (np.concatenate(part) for part in zip(*_climb(children, len(forest.leaf_value)), strict=True))
    cover, value = _cover_and_value(forest, leaf, node)
    splits = children[node, 0] != children[node, 1]
    leaf, below, node = leaf[splits], below[splits], node[splits]
    order = np.lexsort((forest.feature[node], leaf))
    leaf, below, node = leaf[order], below[order], node[order]
    feature = forest.feature[node]
    first_edge = np.flatnonzero((np.diff(leaf, prepend=-1) != 0) | (np.diff(feature, prepend=-1) != 0))
    share = np.multiply.reduceat(cover[below] / cover[node], first_edge) if len(first_edge) else np.empty(0)
    return Paths(
        forest=forest,
        threshold=absorb_zero_flush(forest.threshold),
        children=children,
        value=value,
        expected=float(value[forest.roots].sum()),
        node=node,
        goes_left=children[node, 0] == below,
        first_edge=first_edge,
        feature=feature[first_edge],
        alike=tuple(_alike(leaf[first_edge], share, forest.leaf_value)),
    )


def _place(child: Ints, nodes: int) -> Ints:
    return np.where(child >= 0, child, nodes + ~child)


def _climb(children: Ints, leaves: int) -> Iterator[tuple[Ints, Ints, Ints]]:
    """Every edge above every leaf, level by level: the leaf, the place below the edge, the node above it."""
    nodes = len(children)
    parent = np.full(nodes + leaves, -1)
    parent[children] = np.arange(nodes)[:, None]
    leaf = np.arange(leaves)
    below = nodes + leaf
    while len(leaf):
        yield leaf, below, parent[below]
        below = parent[below]
        under_way = parent[below] >= 0
        leaf, below = leaf[under_way], below[under_way]


def _cover_and_value(forest: Forest, leaf: Ints, node: Ints) -> tuple[Floats, Floats]:
    """(places,) each: training rows that came by, and their mean prediction; given pairs of a leaf and a node above."""
    nodes = len(forest.feature)
    below = np.bincount(node, forest.leaf_cover[leaf], nodes)
    total = np.bincount(node, (forest.leaf_cover * forest.leaf_value)[leaf], nodes)
    return np.concatenate([below, forest.leaf_cover]), np.concatenate([total / below, forest.leaf_value])


def _alike(leaf_of_step: Ints, share: Floats, leaf_value: Floats) -> Iterator[Alike]:
    first, count = (np.unique(leaf_of_step, return_index=True, return_counts=True))[1:]
    for k in np.unique(count):
        step = first[count == k] + np.arange(k)[:, None]
        at, weight = np.polynomial.legendre.leggauss((k + 1) // 2)
        yield Alike(step, share[step][:, :, None], leaf_value[leaf_of_step[step[0]]], (at + 1) / 2, weight / 2)
