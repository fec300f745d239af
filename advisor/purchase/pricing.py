"""Packed machines worth more than they cost: found by filling machines in many random orders, compiled.

A machine is filled by worth per size, with sizes weighted and worths blurred anew for each trial; then a few pods are
taken out and others filled in, as long as that does not lose worth.
"""

import numpy as np

from advisor.optimizer.search.numba_jit import compiled
from advisor.purchase.instance import DEVICE, Floats, Ints

MOST_DEVICES = 62
"""Devices of a machine: who is on which is kept as bits."""
MOST_ITEMS = 1_024
BLUR = 0.15
REFILLS = 25
TAKEN = 3
"""Pods taken out at most before a refill."""
DEVICES_AT = 2
"""Where devices stand in what is left of a machine, behind CPU and memory."""
BITS, WARM = 2**63 - 1, 8
SELDOM, LEAST_WEIGHT = 4, 0.01
"""One order in four leaves one resource out of account."""
LEAST_SIZE = 1e-9


@compiled
def _drawn(state: Ints) -> int:
    """The next 63 random bits of an xorshift generator."""
    one = int(state[0])
    one ^= (one << 13) & BITS
    one ^= one >> 7
    one ^= (one << 17) & BITS
    state[0] = one
    return one


@compiled
def _placed(share: int, whole: int, left: Ints) -> int:
    """Devices a pod goes to as bits, taken from what is left; -1 where none, 0 for a pod without devices."""
    mask, best, devices = 0, -1, len(left) - DEVICES_AT
    for on in range(devices):
        room = left[DEVICES_AT + on]
        if whole > 0 and room == DEVICE:
            mask |= 1 << on
            whole -= 1
        elif room >= share and (best < 0 or room < left[DEVICES_AT + best]):
            best = on
    if whole > 0 or (share > 0 and best < 0):
        return -1
    if share > 0:
        left[DEVICES_AT + best] -= share
        return 1 << best
    for on in range(devices):
        if mask >> on & 1:
            left[DEVICES_AT + on] = 0
    return mask


@compiled
def _fill(order: Ints, first: int, sizes: Ints, most: Ints, left: Ints, items: Ints, counts: Ints, held: int) -> int:
    """Put pods on a machine, of one shape first and then in the order of shapes; how many it holds then."""
    for at in range(-1, len(order)):
        shape = order[at] if at >= 0 else order[first]
        cpu, memory = sizes[shape, 0], sizes[shape, 1]
        while counts[shape] < most[shape] and cpu <= left[0] and memory <= left[1] and held < MOST_ITEMS:
            mask = _placed(sizes[shape, 3], sizes[shape, 2], left)
            if mask < 0:
                break
            left[0] -= cpu
            left[1] -= memory
            items[2 * held], items[2 * held + 1] = shape, mask
            counts[shape] += 1
            held += 1
    return held


@compiled
def _taken_out(at: int, sizes: Ints, left: Ints, items: Ints, counts: Ints, held: int) -> int:
    """Take one pod off a machine; how many it holds then."""
    shape, mask = items[2 * at], items[2 * at + 1]
    left[0] += sizes[shape, 0]
    left[1] += sizes[shape, 1]
    for on in range(len(left) - DEVICES_AT):
        if mask >> on & 1:
            left[DEVICES_AT + on] += sizes[shape, 3] if sizes[shape, 3] > 0 else DEVICE
    counts[shape] -= 1
    items[2 * at], items[2 * at + 1] = items[2 * held - 2], items[2 * held - 1]
    return held - 1


@compiled
def filled(sizes: Ints, worth: Floats, most: Ints, machine: Ints, seed: int, found: Ints, value: Floats) -> None:
    """Fill one machine once per row of `found`.

    Args:
        sizes: (n, 4) cpu, memory, whole devices and share of each shape.
        worth: (n,) of a pod of each shape; shapes of no worth are left out.
        most: (n,) pods of each shape that may be on the machine.
        machine: cpu, memory and devices.
        seed: above 0.
        found: (t, n) written: pods of each shape.
        value: (t,) written: what they are worth.

    Returns:
        Nothing; a machine of no more than `MOST_DEVICES` devices and `MOST_ITEMS` pods.

    Raises:
        Nothing.

    Source: randomised greedy for multidimensional knapsacks with ruin and recreate, as in Pisinger and Ropke, 2007.
    """
    n, state = len(worth), np.array([seed], np.int64)
    items, kept_items = np.zeros(2 * MOST_ITEMS, np.int64), np.zeros(2 * MOST_ITEMS, np.int64)
    best, counts = np.zeros(n, np.int64), np.zeros(n, np.int64)
    left, kept_left = np.zeros(DEVICES_AT + machine[2], np.int64), np.zeros(DEVICES_AT + machine[2], np.int64)
    for _ in range(WARM):
        _drawn(state)
    for trial in range(len(found)):
        order = _order(sizes, worth, most, machine, state)
        counts.fill(0)
        left.fill(DEVICE)
        _copied(machine, left, DEVICES_AT)
        held = _fill(order, 0, sizes, most, left, items, counts, 0) if len(order) else 0
        _copied(counts, best, n)
        top = _value(worth, counts)
        for _ in range(REFILLS if held else 0):
            kept = held
            _copied(items, kept_items, 2 * held)
            _copied(left, kept_left, len(left))
            for _ in range(min(1 + _drawn(state) % TAKEN, held)):
                held = _taken_out(_drawn(state) % held, sizes, left, items, counts, held)
            held = _fill(order, _drawn(state) % len(order), sizes, most, left, items, counts, held)
            reached = _value(worth, counts)
            if reached >= top:
                _copied(counts, best, n)
                top = reached
            else:
                held = kept
                _copied(kept_items, items, 2 * held)
                _copied(kept_left, left, len(left))
                _copied(best, counts, n)
        for shape in range(n):
            found[trial, shape] = best[shape]
        value[trial] = top


@compiled
def _copied(source: Ints, target: Ints, length: int) -> None:
    """Copy the first numbers."""
    for at in range(length):
        target[at] = source[at]


@compiled
def _value(worth: Floats, counts: Ints) -> float:
    """What the pods are worth."""
    total = 0.0
    for shape in range(len(worth)):
        if counts[shape]:
            total += worth[shape] * counts[shape]
    return total


@compiled
def _order(sizes: Ints, worth: Floats, most: Ints, machine: Ints, state: Ints) -> Ints:
    """Shapes by worth per size, with the weight of each resource and the worths blurred at random."""
    weight = np.empty(3)
    for column in range(3):
        weight[column] = (_drawn(state) % 1_000 + 1) / 1_000
    if _drawn(state) % SELDOM == 0:
        weight[_drawn(state) % 3] = LEAST_WEIGHT
    rate, order, length = np.zeros(len(worth)), np.zeros(len(worth), np.int64), 0
    for shape in range(len(worth)):
        if worth[shape] > 0 and most[shape] > 0:
            size = weight[0] * sizes[shape, 0] / max(machine[0], 1) + weight[1] * sizes[shape, 1] / max(machine[1], 1)
            size += weight[2] * (sizes[shape, 2] + sizes[shape, 3] / DEVICE) / max(machine[2], 1) + LEAST_SIZE
            rate[shape] = worth[shape] / size * (1.0 + BLUR * (_drawn(state) % 2_001 / 1_000 - 1.0))
            at = length
            while at > 0 and rate[order[at - 1]] < rate[shape]:
                order[at] = order[at - 1]
                at -= 1
            order[at] = shape
            length += 1
    return order[:length]


def compile_now() -> None:
    """Compile, or load what was compiled before, so that no search pays for it."""
    one = np.ones(1, np.int64)
    filled(np.array([[1, 1, 0, 0]]), np.ones(1), one, np.ones(3, np.int64), 1, np.zeros((1, 1), np.int64), np.zeros(1))
