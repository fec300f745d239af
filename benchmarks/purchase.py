"""Purchase: pods of a public trace packed onto machines to buy, beside first fit and machines counted before packing.

The bound is that of the device-pattern linear program; `packed` is true after every machine was checked exactly.
"""

import os
import sys
from argparse import ArgumentParser, Namespace
from collections import Counter
from pathlib import Path
from time import monotonic

import numpy as np
from pyarrow import csv

from advisor.purchase.device_bound import device_counts
from advisor.purchase.first_fit import Machines, cost_of, first_fit, unplaced
from advisor.purchase.instance import DEVICE, NO_LIMIT, Instance, Ints, MachineTypes, Shapes, instance
from advisor.purchase.packing import Search, purchase
from advisor.purchase.packing_check import faults_of
from benchmarks.runner import TOP, Benchmark, Result

FLEETS = ("none", "openb")
PODS, NODES, PRICES = "openb_pod_list_default.csv.gz", "openb_node_list_all_node.csv.gz", "prices.csv"
SIZE = ("cpu_milli", "memory_mib")
COUNTING_S = 15.0
"""For whole numbers of machines before they are packed."""


def trace_instance(folder: Path, fleet: str, demand: float) -> Instance:
    """All pods of Alibaba's gpu-v2023 at once, the SKUs of the price list, and today's nodes at price 0 or none.

    Args:
        folder: of the three files.
        fleet: "none" or "openb".
        demand: pods of each shape are multiplied by it, rounded up.
    """
    pods, prices = csv.read_csv(folder / PODS), csv.read_csv(folder / PRICES)
    whole, milli = pods["num_gpu"].to_numpy(), pods["gpu_milli"].to_numpy()
    share = np.where((whole == 1) & (milli < DEVICE), milli, 0)
    rows = np.column_stack([pods[name].to_numpy() for name in SIZE] + [np.where(share > 0, 0, whole), share])
    shape, count = np.unique(rows, axis=0, return_counts=True)
    cpu, memory, devices, share = shape.T.astype(np.int64)
    shapes = Shapes(cpu, memory, devices, share, np.ceil(count * demand).astype(np.int64))
    there = _nodes(folder) if fleet == "openb" else []
    sizes = [row for row, _ in there] + list(zip(*(prices[name].to_pylist() for name in (*SIZE, "gpu")), strict=True))
    cpu, memory, devices = np.array(sizes, np.int64).T
    types = MachineTypes(
        name=(*(f"node-{at}" for at in range(len(there))), *prices["sku"].to_pylist()),
        cpu=cpu,
        memory=memory,
        devices=devices,
        price=np.concatenate([np.zeros(len(there)), prices["price"].to_numpy()]),
        most=np.array([number for _, number in there] + [NO_LIMIT] * len(prices), np.int64),
    )
    return instance(shapes, types)


def _nodes(folder: Path) -> list[tuple[tuple[int, ...], int]]:
    rows = csv.read_csv(folder / NODES)
    return sorted(Counter(zip(*(rows[name].to_pylist() for name in (*SIZE, "gpu")), strict=True)).items())


def counted_then_packed(wanted: Instance, seconds: float) -> Machines:
    """Machines of the counts that sums ask for, filled by first fit, and more bought for pods that find no room.

    Returns:
        Machines of the same instance.
    """
    types = wanted.types
    counts, kinds = device_counts(wanted, seconds), np.arange(len(types.name))
    both = MachineTypes(
        name=types.name + types.name,
        cpu=np.tile(types.cpu, 2),
        memory=np.tile(types.memory, 2),
        devices=np.tile(types.devices, 2),
        price=np.concatenate([np.zeros(len(kinds)), types.price]),
        most=np.concatenate([counts, np.where(types.most < NO_LIMIT, types.most - counts, types.most)]),
    )
    found = first_fit(Instance(wanted.shapes, both, np.tile(wanted.allowed, 2)))
    return Machines(found.kind % len(kinds), found.packed)


def run(arguments: Namespace, _: np.random.Generator) -> Result:
    """One instance; more with `--fleet`, `--demand` and `--seed`."""
    wanted = trace_instance(_folder(arguments), arguments.fleet, arguments.demand)
    first, counted = first_fit(wanted), counted_then_packed(wanted, COUNTING_S)
    started = monotonic()
    found = purchase(wanted, Search(arguments.seconds, arguments.seed, monotonic, _report))
    taken = monotonic() - started
    faults = faults_of(wanted, found.machines)
    for fault in faults:
        _report(fault)
    top = {
        "demand": arguments.demand,
        "seconds": taken,
        "cost": found.cost,
        "bound": found.bound.cost,
        "gap": found.cost / found.bound.cost - 1.0,
        "above_bound": found.cost - found.bound.cost,
        "packed": not faults,
        "tasks_unplaced": int(found.unplaced.sum()),
        "ffd_cost": cost_of(wanted, first),
        "ffd_unplaced": int(unplaced(wanted, first).sum()),
        "mip_then_pack_cost": cost_of(wanted, counted),
        "mip_then_pack_unplaced": int(unplaced(wanted, counted).sum()),
        "columns": found.columns,
        "cg_lp": found.relaxed,
        "seed": arguments.seed,
    }
    return {TOP: top, "machines": _bought(wanted, found.machines.kind)}


def _bought(wanted: Instance, kind: Ints) -> dict[str, int]:
    """Machines of each type that costs something."""
    number = np.bincount(kind, minlength=len(wanted.types.name)).tolist()
    names = zip(wanted.types.name, wanted.types.price.tolist(), number, strict=True)
    return {name: count for name, price, count in names if count and price > 0}


def _folder(arguments: Namespace) -> Path:
    data = arguments.data or (f"{os.environ['BENCH_DATA']}/purchase" if "BENCH_DATA" in os.environ else "")
    if not data or not (Path(data) / PODS).is_file():
        raise SystemExit(f"purchase: give --data DIR with {PODS}, {NODES} and {PRICES}, or set BENCH_DATA")
    return Path(data)


def _report(line: str) -> None:
    print(line, file=sys.stderr)


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--data", help="folder of the three files; BENCH_DATA/purchase otherwise")
    parser.add_argument("--seconds", type=float, default=60.0, help="for the search")
    parser.add_argument("--fleet", choices=FLEETS, default="none", help="nodes that are there already")
    parser.add_argument("--demand", type=float, default=1.0, help="times the pods of the trace")
    parser.add_argument("--seed", type=int, default=1)


BENCHMARK = Benchmark("purchase", "machines bought for a public trace, packed, beside the bound", run, 1, _arguments)
