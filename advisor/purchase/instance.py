"""What a purchase is planned from: pods by shape, and types of machine that are there or can be bought."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

DEVICE = 1_000
"""Thousandths of a GPU device; a pod asks for whole devices, or for a part of one."""
NO_LIMIT = 2**31
"""As many machines as wished."""


class Shapes(NamedTuple):
    """Pods by what they ask for; each an array of length n.

    Args:
        cpu: thousandths of a core per pod.
        memory: MiB per pod.
        devices: whole GPU devices per pod.
        share: thousandths of one device per pod, below 1,000; such pods may share a device, and ask for no whole one.
        pods: how many of the shape, all at once.
    """

    cpu: Ints
    memory: Ints
    devices: Ints
    share: Ints
    pods: Ints


class MachineTypes(NamedTuple):
    """Types of machine; arrays of length m.

    Args:
        name: the SKU, or what a node of today is called by.
        cpu: thousandths of a core per machine, after what the system and interference need.
        memory: MiB per machine.
        devices: GPU devices per machine.
        price: cost of one machine, in any unit; 0 for what is already paid.
        most: machines that can be had at most; `NO_LIMIT` for any number.
    """

    name: tuple[str, ...]
    cpu: Ints
    memory: Ints
    devices: Ints
    price: Floats
    most: Ints


class Instance(NamedTuple):
    """Pods and the machines that may hold them.

    Args:
        shapes: n of them.
        types: m of them.
        allowed: (n, m) whether pods of a shape may run on machines of a type, apart from its size.
    """

    shapes: Shapes
    types: MachineTypes
    allowed: Flags


def instance(shapes: Shapes, types: MachineTypes, allowed: Flags | None = None) -> Instance:
    """An instance in which a shape is allowed only where one pod of it fits.

    Args:
        shapes: n of them.
        types: m of them.
        allowed: (n, m) what a pod's allowed models leave; None: every type.

    Raises:
        ValueError: arrays differ in length, a size is negative, a share is not below 1,000, or a pod asks for whole
            devices and a share.
    """
    n, m = len(shapes.pods), len(types.name)
    if any(len(column) != n for column in shapes) or any(len(column) != m for column in types):
        raise ValueError("columns of shapes or of machine types differ in length")
    if any(float(column.min(initial=0)) < 0 for column in (*shapes, *types[1:])):
        raise ValueError("sizes, counts and prices are at least 0")
    if int(shapes.share.max(initial=0)) >= DEVICE or bool(((shapes.share > 0) & (shapes.devices > 0)).any()):
        raise ValueError("a pod asks for whole devices or for a share below one device, not for both")
    asked = shapes.devices + (shapes.share > 0)
    fits = (
        (shapes.cpu[:, None] <= types.cpu)
        & (shapes.memory[:, None] <= types.memory)
        & (asked[:, None] <= types.devices)
    )
    return Instance(shapes, types, fits if allowed is None else fits & allowed)
