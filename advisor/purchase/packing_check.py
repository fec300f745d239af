"""Whether packed machines are true: counted anew from the pods, by none of the search's own arithmetic."""

import numpy as np

from advisor.purchase.devices import placed_on_devices
from advisor.purchase.first_fit import Machines
from advisor.purchase.instance import Instance


def faults_of(instance: Instance, machines: Machines) -> tuple[str, ...]:
    """What is wrong with packed machines, in words; nothing where all of it can be built and run.

    Args:
        instance: shapes, machine types and where each shape may go.
        machines: what is said to be packed.

    Returns:
        A sentence per fault: too many pods of a shape, too many machines of a type, a machine whose pods do not fit,
        devices included, or a pod on a type where it is not allowed. Pods on no machine are not a fault.

    Raises:
        Nothing.
    """
    types, found = instance.types, list[str]()
    over = machines.packed.sum(axis=0) - instance.shapes.pods
    found += [f"shape {at}: {over[at]} pods more than there are" for at in np.flatnonzero(over > 0).tolist()]
    number = np.bincount(machines.kind, minlength=len(types.name))
    for kind in np.flatnonzero(number > types.most).tolist():
        found.append(f"{types.name[kind]}: {number[kind]} machines, of at most {types.most[kind]}")
    distinct, first = np.unique(np.column_stack([machines.kind, machines.packed]), axis=0, return_index=True)
    for row, at in zip(distinct, first.tolist(), strict=True):
        why = _overfull(instance, int(row[0]), row[1:].tolist())
        if why:
            found.append(f"machine {at}, {types.name[int(row[0])]}: {why}")
    return tuple(found)


def _overfull(instance: Instance, kind: int, packed: list[int]) -> str:
    """Why one machine cannot hold its pods."""
    of, types = instance.shapes, instance.types
    cpu = memory = whole = 0
    shares = list[int]()
    for shape, count in enumerate(packed):
        if not count:
            continue
        if not instance.allowed[shape, kind]:
            return f"shape {shape} may not run there"
        cpu, memory = cpu + count * int(of.cpu[shape]), memory + count * int(of.memory[shape])
        whole += count * int(of.devices[shape])
        shares += [int(of.share[shape])] * (count if of.share[shape] else 0)
    names = ("milli-cores", "MiB of memory", "devices")
    for name, taken, has in zip(names, (cpu, memory, whole), (types.cpu, types.memory, types.devices), strict=True):
        if taken > has[kind]:
            return f"pods ask for {taken} {name}, it has {has[kind]}"
    left = int(types.devices[kind]) - whole
    return "" if placed_on_devices(shares, left) is not None else f"shares {sorted(shares)} do not fit {left} devices"
