"""Small purchases, drawn for laws that hold of all of them."""

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from advisor.purchase.instance import NO_LIMIT, Instance, MachineTypes, Shapes, instance

Pod = tuple[int, int, int, int, int]
"""CPU, memory, whole devices, share, and how many."""
Machine = tuple[str, int, int, int, float, int]
"""Name, CPU, memory, devices, price, and how many at most."""


def made(pods: Sequence[Pod], machines: Sequence[Machine]) -> Instance:
    """An instance of rows."""
    cpu, memory, devices, share, count = np.array(pods, np.int64).reshape(-1, 5).T
    names, cpus, memories, gpus, prices, most = zip(*machines, strict=True)
    sizes = np.array([cpus, memories, gpus])
    types = MachineTypes(names, sizes[0], sizes[1], sizes[2], np.array(prices, float), np.array(most))
    return instance(Shapes(cpu, memory, devices, share, count), types)


def pods() -> st.SearchStrategy[list[Pod]]:
    """A few shapes; each asks for whole devices, for a part of one, or for none."""
    asks = st.one_of(
        st.just((0, 0)), st.tuples(st.integers(1, 2), st.just(0)), st.tuples(st.just(0), st.integers(100, 999))
    )
    one = st.builds(lambda cpu, memory, asked, count: (cpu, memory, *asked, count), st.integers(1, 8),
                    st.integers(1, 8), asks, st.integers(1, 6))  # fmt: skip
    return st.lists(one, min_size=1, max_size=5)


def machines() -> st.SearchStrategy[list[Machine]]:
    """A few types, one of them large enough for every drawn pod."""
    sizes = st.tuples(st.integers(4, 16), st.integers(4, 16), st.integers(0, 4), st.integers(1, 9), st.integers(0, 3))
    large = ("large", 32, 32, 4, 12.0, NO_LIMIT)
    some = st.lists(sizes, max_size=3)
    return some.map(lambda rows: [*(("some", *row[:3], float(row[3]), row[4]) for row in rows), large])
