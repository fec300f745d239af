"""What no purchase can cost less than: a linear program in which shares of a device fill devices as they really can.

The program over summed resources says that shares fit wherever their sum does; on today's fleets it buys nothing
where something must be bought.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from advisor.purchase.instance import DEVICE, NO_LIMIT, Floats, Instance, Ints
from advisor.purchase.linear_program import INFINITE, Program, Terms, solved, terms

MOST_PATTERNS = 20_000
"""Ways to divide a device; above it sizes are rounded down to fewer, which keeps the bound a bound."""
COARSER = (1, 2, 5, 10, 20, 25, 50, 100, 200)


class Bound(NamedTuple):
    """A cost that no purchase is below.

    Args:
        cost: of the linear program.
        machines: (m,) machines of each type in it, fractions included.
        worth: (n,) what one pod more of each shape costs.
        scarce: (m,) what one machine more of a limited type would save.
    """

    cost: float
    machines: Floats
    worth: Floats
    scarce: Floats


def device_bound(instance: Instance) -> Bound:
    """The least cost of machines that hold all pods, were machines and pods divisible.

    Args:
        instance: shapes, types and where each shape may go.

    Returns:
        The bound, infinite where pods fit nowhere or machines do not suffice.

    Raises:
        Nothing.

    Source: variable cost and size vector bin packing relaxed to sums, with the configurations of Gilmore and Gomory,
    "A linear programming approach to the cutting stock problem", 1961, for the parts of one device alone.
    """
    of = _layout(instance)
    found, (n, m) = solved(_program(instance, of)), instance.allowed.shape
    if not len(found.variable):
        return Bound(INFINITE, np.zeros(m), np.zeros(n), np.zeros(m))
    saved = np.where(instance.types.most < NO_LIMIT, np.maximum(-found.reduced[of.machines], 0.0), 0.0)
    return Bound(found.value, found.variable[of.machines], found.price[-n:], saved)


def device_counts(instance: Instance, seconds: float) -> Ints:
    """(m,) whole machines of each type by the same program: how many would be bought if sums said what fits.

    Raises:
        ValueError: pods fit nowhere, machines do not suffice, or nothing was found in time.
    """
    of = _layout(instance)
    program = _program(instance, of)
    whole = np.zeros(len(program.cost), bool)
    whole[of.machines] = True
    found = solved(program, whole, seconds)
    if not len(found.variable):
        raise ValueError(f"no whole numbers of machines found in {seconds:g} s")
    return np.rint(found.variable[of.machines]).astype(np.int64)


def device_patterns(sizes: Ints) -> Ints:
    """Maximal ways to fill one device with shares.

    Args:
        sizes: (s,) distinct shares, ascending, from 1 to 999.

    Returns:
        (q, s) how many of each size; no share more of any size fits.

    Raises:
        Nothing.

    Source: Gilmore and Gomory, 1961.
    """
    found, order = list[tuple[int, ...]](), sizes[::-1].tolist()
    chosen = [0] * len(order)

    def go(at: int, room: int) -> None:
        if at == len(order):
            if room < order[-1]:
                found.append(tuple(reversed(chosen)))
            return
        for count in range(room // order[at], -1, -1):
            chosen[at] = count
            go(at + 1, room - count * order[at])
        chosen[at] = 0

    if order:
        go(0, DEVICE)
    return np.array(found, np.int64).reshape(len(found), len(order))


def _shares(share: Ints) -> tuple[Ints, Ints]:
    """Shares no larger than given, few enough to list all patterns of; and those patterns."""
    for step in COARSER:
        rounded = np.where(share > 0, np.maximum(share // step * step, 1), 0)
        sizes = np.unique(rounded[rounded > 0])
        if _count(sizes) <= MOST_PATTERNS:
            break
    return rounded, sizes


def _count(sizes: Ints) -> int:
    """An upper estimate of the number of ways to divide a device."""
    ways = np.zeros(DEVICE + 1, dtype=np.int64)
    ways[0] = 1
    for size in sizes.tolist():
        for room in range(size, DEVICE + 1):
            ways[room] += ways[room - size]
    return int(ways.sum()) if len(sizes) else 0


class _Layout(NamedTuple):
    """Where variables stand: pods of shape i on type j, devices of type j in pattern q, machines."""

    pods: Ints
    pod_shape: Ints
    pod_type: Ints
    patterns: Ints
    sizes: Ints
    rounded: Ints
    with_devices: Ints
    machines: Ints


def _layout(instance: Instance) -> _Layout:
    shape, on = np.nonzero(instance.allowed & (instance.shapes.pods > 0)[:, None])
    rounded, sizes = _shares(instance.shapes.share)
    patterns = device_patterns(sizes)
    with_devices = np.flatnonzero(instance.types.devices > 0) if len(sizes) else np.zeros(0, np.int64)
    before = len(shape) + len(with_devices) * len(patterns)
    return _Layout(
        np.arange(len(shape)),
        shape,
        on,
        patterns,
        sizes,
        rounded,
        with_devices,
        before + np.arange(len(instance.types.name)),
    )


def _program(instance: Instance, of: _Layout) -> Program:
    types, shapes = instance.types, instance.shapes
    variables = int(of.machines[-1]) + 1
    blocks = [*_capacity(instance, of), *_slots(of), _coverage(of)]
    rows, parts = 0, list[Terms]()
    low = list[Floats]()
    for block, count, least in blocks:
        parts.append(block._replace(row=block.row + rows))
        low.append(np.full(count, least) if least is not None else shapes.pods.astype(np.float64))
        rows += count
    most = np.full(variables, INFINITE)
    most[of.machines] = np.where(types.most >= NO_LIMIT, INFINITE, types.most)
    cost = np.zeros(variables)
    cost[of.machines] = types.price
    return Program(cost, most, np.concatenate(low), np.full(rows, INFINITE), terms(*parts))


Block = tuple[Terms, int, float | None]
"""Entries, rows, and their lower bound; None: pods of each shape."""


def _capacity(instance: Instance, of: _Layout) -> Iterator[Block]:
    """What machines have is at least what pods on them take."""
    shapes, types, m = instance.shapes, instance.types, len(instance.types.name)
    parts = shapes.devices * DEVICE + shapes.share
    summed = ((shapes.cpu, types.cpu), (shapes.memory, types.memory), (parts, types.devices * DEVICE))
    for asked, has in (*summed, (shapes.devices, types.devices)):
        scale = 1.0 / max(float(has.max(initial=1)), 1.0)
        taken = Terms(of.pod_type, of.pods, (-scale * asked[of.pod_shape]).astype(np.float64))
        given = Terms(np.arange(m), of.machines, (scale * has).astype(np.float64))
        split = [_pattern_terms(of, np.full(len(of.patterns), -scale))] if has is types.devices else []
        yield terms(taken, given, *split), m, 0.0


def _pattern_terms(of: _Layout, factor: Floats) -> Terms:
    """One entry per pattern and type with devices, in the type's row."""
    q, g = len(of.patterns), len(of.with_devices)
    return Terms(np.repeat(of.with_devices, q), len(of.pods) + np.arange(g * q), np.tile(factor, g))


def _slots(of: _Layout) -> Iterator[Block]:
    """Of each size, slots at least as large are at least as many as pods that need one."""
    q, m = len(of.patterns), len(of.machines)
    for size in of.sizes.tolist():
        needs = of.rounded[of.pod_shape] >= size
        taken = Terms(of.pod_type[needs], of.pods[needs], np.full(int(needs.sum()), -1.0))
        slots = of.patterns[:, of.sizes >= size].sum(axis=1).astype(np.float64) if q else np.zeros(0)
        yield terms(taken, _pattern_terms(of, slots)), m, 0.0


def _coverage(of: _Layout) -> Block:
    """Every pod is somewhere."""
    return Terms(of.pod_shape, of.pods, np.ones(len(of.pods))), len(of.rounded), None
