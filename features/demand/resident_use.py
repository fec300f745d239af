"""Resident use: what those who are on a node now used of it in the past, in bins of five minutes. Kernel."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from features.columnar.arrow_columns import Floats, Ints, floats, micros
from features.columnar.windows import LABEL_US, window_end

PAIR = "\0"
"""Between names of a node and a container."""


class Counted(NamedTuple):
    """Containers whose use counts.

    Args:
        node: (k,) where each runs now.
        container: (k,) its name in records.
        start_us: (k,) since when it runs, microseconds since 1970.
    """

    node: pa.Array
    container: pa.Array
    start_us: Ints


def resident_use(rows: pa.Table, column: str, counted: Counted, nodes: pa.Array, *, end_us: int, bins: int) -> Floats:
    """What some residents used together, bin after bin.

    Args:
        rows: node, container, `window_end` and the column, of one-minute windows; any order, others' rows are left out.
        column: use as a share of the node, such as demand_cpu.
        counted: containers whose use counts.
        nodes: (n,) names, each once.
        end_us: end of the last bin, a multiple of five minutes since 1970.
        bins: how many.

    Returns:
        (n, bins) sum over containers of the largest minute of each in the bin: at least what any minute of all together
        was. NaN where a container that ran throughout the bin was not measured in it, and where none ran: a part of
        the residents is never taken for all of them.

    Raises:
        Nothing.

    Source: ours; the largest minute in place of a mean, since means of five minutes hide peaks.
    """
    of_node = np.asarray(pc.index_in(counted.node, value_set=nodes).fill_null(-1), np.int64)
    largest = _largest(rows, column, counted, end_us=end_us, bins=bins)
    measured = np.isfinite(largest)
    begins_us = end_us - LABEL_US * np.arange(bins, 0, -1)
    awaited = counted.start_us[:, None] <= begins_us
    total, seen, missing = (np.zeros((len(nodes), bins)) for _ in range(3))
    here = of_node >= 0
    np.add.at(total, of_node[here], np.where(measured, largest, 0.0)[here])
    np.add.at(seen, of_node[here], measured[here])
    np.add.at(missing, of_node[here], (awaited & ~measured)[here])
    return np.where((seen > 0) & (missing == 0), total, np.nan)


def _largest(rows: pa.Table, column: str, counted: Counted, *, end_us: int, bins: int) -> Floats:
    """(k, bins) largest minute of each container; -inf where none was measured."""
    names = pc.binary_join_element_wise(counted.node, counted.container, PAIR)
    found = pc.binary_join_element_wise(rows["node"], rows["container"], PAIR)
    which = pc.index_in(found, value_set=names).combine_chunks().fill_null(-1).to_numpy()
    ago = (end_us - window_end(micros(rows["window_end"]), LABEL_US)) // LABEL_US
    value = floats(rows[column])
    use: NDArray[np.float64] = np.full((len(counted.start_us), bins), -np.inf)
    wanted = (which >= 0) & (ago >= 0) & (ago < bins) & np.isfinite(value)
    np.maximum.at(use, (which[wanted], bins - 1 - ago[wanted]), value[wanted])
    return use
