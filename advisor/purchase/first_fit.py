"""First fit decreasing with devices: each pod goes to the first machine that takes it. A start, and what others do."""

from typing import NamedTuple

import numpy as np

from advisor.purchase.instance import DEVICE, Floats, Instance, Ints


class Machines(NamedTuple):
    """Packed machines.

    Args:
        kind: (k,) machine type.
        packed: (k, n) pods of each shape.
    """

    kind: Ints
    packed: Ints


def cost_of(instance: Instance, machines: Machines) -> float:
    """Price of the machines, in the unit of their prices."""
    return float(instance.types.price[machines.kind].sum())


def unplaced(instance: Instance, machines: Machines) -> Ints:
    """(n,) pods of each shape on no machine."""
    missing: Ints = np.maximum(instance.shapes.pods - machines.packed.sum(axis=0), 0)
    return missing


def orders(instance: Instance) -> tuple[Ints, ...]:
    """Orders of shapes, each largest first: by devices and CPU, by CPU, by memory, by the largest part of a machine."""
    of, types = instance.shapes, instance.types
    devices = of.devices * DEVICE + of.share
    most = [max(int(has.max(initial=1)), 1) for has in (types.cpu, types.memory, types.devices * DEVICE)]
    part = np.maximum(np.maximum(of.cpu / most[0], of.memory / most[1]), devices / most[2])
    keys = ((of.memory, of.cpu, devices), (devices, of.memory, of.cpu), (of.cpu, devices, of.memory), (devices, part))
    return tuple(np.lexsort(key)[::-1] for key in keys)


def first_fit(instance: Instance, order: Ints | None = None) -> Machines:
    """Put pods on machines in an order, and take another machine where none has room.

    Args:
        instance: shapes, machine types and where each shape may go.
        order: of shapes; None: the cheapest of several.

    Returns:
        The machines, those of price 0 first taken; a pod that none takes is on none.

    Raises:
        Nothing.

    Source: Johnson, "Near-optimal bin packing algorithms", 1973; a new machine is of the type that costs least for the
    part of it that the pod takes.
    """
    if order is None:
        found = [_Open(instance).filled(one) for one in orders(instance)]
        return min(found, key=lambda one: (unplaced(instance, one).sum(), cost_of(instance, one)))
    return _Open(instance).filled(order)


class _Open:
    """Machines that are taken so far."""

    def __init__(self, instance: Instance) -> None:
        self.instance, self.left = instance, instance.types.most.copy()
        size = int(instance.shapes.pods.sum())
        self.used, self.kind = 0, np.zeros(size, np.int64)
        self.free = np.zeros((size, 2), np.int64)
        self.room = np.zeros((size, int(instance.types.devices.max(initial=0))), np.int64)
        self.packed = np.zeros((size, len(instance.shapes.pods)), np.int64)

    def filled(self, order: Ints) -> Machines:
        """All pods in an order of shapes."""
        for shape in order.tolist():
            for _ in range(int(self.instance.shapes.pods[shape])):
                if not self._put(shape):
                    break
        return Machines(self.kind[: self.used].copy(), self.packed[: self.used].copy())

    def _put(self, shape: int) -> bool:
        """Whether a pod found a place."""
        of, used = self.instance.shapes, self.used
        whole, share = int(of.devices[shape]), int(of.share[shape])
        takes = self.instance.allowed[shape, self.kind[:used]]
        takes &= (self.free[:used, 0] >= of.cpu[shape]) & (self.free[:used, 1] >= of.memory[shape])
        if whole:
            takes &= (self.room[:used] == DEVICE).sum(axis=1) >= whole
        if share:
            takes &= self.room[:used].max(axis=1, initial=0) >= share
        at = int(takes.argmax()) if used and takes.any() else self._opened(shape)
        if at < 0:
            return False
        self.free[at] -= (of.cpu[shape], of.memory[shape])
        self.packed[at, shape] += 1
        room = self.room[at]
        if whole:
            room[np.flatnonzero(room == DEVICE)[:whole]] = 0
        if share:
            on = int(np.where(room >= share, room, DEVICE + 1).argmin())
            room[on] -= share
        return True

    def _opened(self, shape: int) -> int:
        """A machine more, of the type that is cheapest for the pod's part of it; -1 where there is none."""
        types = self.instance.types
        may = np.flatnonzero(self.instance.allowed[shape] & (self.left > 0))
        if not len(may):
            return -1
        part = _part(self.instance, shape)
        kind = int(may[np.lexsort((-part[may], (types.price * part)[may]))[0]])
        self.left[kind] -= 1
        at, self.used = self.used, self.used + 1
        self.kind[at], self.free[at] = kind, (types.cpu[kind], types.memory[kind])
        self.room[at, : types.devices[kind]] = DEVICE
        return at


def _part(instance: Instance, shape: int) -> Floats:
    """(m,) the largest part of a machine that a pod takes of any resource."""
    of, types = instance.shapes, instance.types
    devices = of.devices[shape] + of.share[shape] / DEVICE
    parts = (of.cpu[shape] / np.maximum(types.cpu, 1), of.memory[shape] / np.maximum(types.memory, 1))
    most: Floats = np.maximum(np.maximum(*parts), devices / np.maximum(types.devices, 1))
    return most
