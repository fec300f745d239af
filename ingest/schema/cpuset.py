"""Cpusets: which of a node's cores each container may run on. Kernel."""

import re

import numpy as np
from numpy.typing import NDArray

_RANGE = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?")
MAX_CORES = 8192


def cores_of(cpuset: str) -> tuple[int, ...] | None:
    """Core numbers named by a Linux cpuset list, such as 0-3,8; None where it does not read as cores.

    Source: cpuset(7), List format.
    """
    cores: set[int] = set()
    for part in cpuset.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            return None
        first, last = int(match[1]), int(match[2] or match[1])
        if not first <= last < MAX_CORES:
            return None
        cores.update(range(first, last + 1))
    return tuple(sorted(cores))


def is_cpuset(cpuset: str) -> bool:
    """Whether it reads as a cpuset list."""
    return cores_of(cpuset) is not None


def membership(cpusets: list[str | None], node_cores: int) -> NDArray[np.bool_]:
    """Which cores each container may use.

    Args:
        cpusets: (k,) cpuset lists; None, a list that names none of the node's cores, or one that does not read as
            cores (landed before that was checked) means every core.
        node_cores: number of cores of the node, >= 1.

    Returns:
        (k, node_cores) booleans, at least one true in each row.
    """
    allowed = np.ones((len(cpusets), node_cores), np.bool_)
    for row, cpuset in enumerate(cpusets):
        own = [core for core in cores_of(cpuset or "") or () if core < node_cores]
        if own:
            allowed[row] = False
            allowed[row, own] = True
    return allowed
