"""Whether parts of GPU devices fit on a machine's devices: exact, since sums say yes too often.

Of sets of shares that fill eight devices to the brim by their sum, almost none can be placed.
"""

from collections.abc import Iterable, Sequence

from advisor.purchase.instance import DEVICE


def placed_on_devices(shares: Sequence[int], devices: int) -> tuple[int, ...] | None:
    """Which device each share goes to, or None where no way exists.

    Args:
        shares: thousandths of a device, each from 1 to 1,000.
        devices: whole devices that are free.

    Returns:
        One device, from 0, per share.

    Raises:
        Nothing.

    Source: bin packing decided by depth-first search with the fullest device first; equal devices are tried once, and
    what failed is remembered by the room that was left.
    """
    return placed_in_room(shares, [DEVICE] * devices)


def placed_in_room(shares: Sequence[int], room: Sequence[int]) -> tuple[int, ...] | None:
    """The same for devices of which parts are in use: thousandths that each has left."""
    if sum(shares) > sum(room):
        return None
    order = sorted(range(len(shares)), key=lambda at: -shares[at])
    found = _placed([shares[at] for at in order], list(room))
    if found is None:
        return None
    device = [0] * len(shares)
    for at, on in zip(order, found, strict=True):
        device[at] = on
    return tuple(device)


def _placed(sizes: Sequence[int], room: list[int]) -> list[int] | None:
    """The same for sizes in descending order; what is left of the room at the end."""
    chosen = list[int]()
    left = [sum(sizes[at:]) for at in range(len(sizes) + 1)]
    failed = set[tuple[int, tuple[int, ...]]]()

    def go(at: int) -> bool:
        if at == len(sizes):
            return True
        size = sizes[at]
        state = (at, tuple(sorted(room)))
        if state in failed or left[at] > sum(free for free in room if free >= sizes[-1]):
            return False
        for on in _candidates(room, size):
            room[on] -= size
            chosen.append(on)
            if go(at + 1):
                return True
            chosen.pop()
            room[on] += size
        failed.add(state)
        return False

    return chosen if go(0) else None


def _candidates(room: Sequence[int], size: int) -> Iterable[int]:
    """Devices that still hold the size, fullest first, one of each room."""
    seen = dict[int, int]()
    for on, free in enumerate(room):
        if free >= size:
            seen.setdefault(free, on)
    return [seen[free] for free in sorted(seen)]
