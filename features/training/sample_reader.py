"""Drawing: the training rows of a lake, or a sample of them, piece by piece in one process. An edge.

Two passes: one counts strata, the other keeps. Neither holds much more than the sample.
"""

from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from features.columnar.hashing import label_window_hashes, of_windows
from features.schema.tables import CONTENTION, NODE_STATE, TRAINING
from features.training.stratified_sample import COUNTED, Draw, chosen_of, draw_of, in_order, tally, total, weighted
from ingest.lake.row_filter import EPOCH, FOREVER
from ingest.lake.tables import Lake


@dataclass(frozen=True)
class Sample:
    """Training rows to learn from.

    Args:
        rows: of table training, sorted by time and key.
        draw: how they were drawn; None where they are all there are.
    """

    rows: pa.Table
    draw: Draw | None = None


@dataclass(frozen=True)
class Measured:
    """What was measured in windows: rows of `contention`, and some columns of `node_state`."""

    contention: pa.Table
    state: pa.Table


def rows_there(lake: Lake, end: datetime = FOREVER) -> int:
    """Training rows of before a time, without reading them; more, where files hold others too."""
    return lake.count(TRAINING.name, EPOCH, end)


def draw_local(lake: Lake, max_rows: int, *, power: float, seed: int = 0, end: datetime = FOREVER) -> Sample:
    """At most so many training rows of a lake, each with the weight of those it stands for.

    Args:
        lake: holds table training.
        max_rows: rows to keep; all are kept where there are no more.
        power: see features.training.stratified_sample.quotas.
        seed: another one draws other rows.
        end: rows of windows that ended before count.

    Raises:
        FeaturesError: max_rows are fewer than strata.
    """
    if rows_there(lake, end) > max_rows:
        counted = lake.pieces(TRAINING.name, COUNTED, end)
        draw = draw_of(total(map(tally, counted)), max_rows, power=power, seed=seed)
        if draw.leaves_out:
            return Sample(in_order(weighted(chosen_of(lake.pieces(TRAINING.name, end=end), draw), draw)), draw)
    return Sample(lake.read(TRAINING.name, end=end))


def measured_in(lake: Lake, windows: pa.Table, state_columns: tuple[str, ...]) -> Measured:
    """What was measured in some windows, without holding what was measured in others."""
    wanted = label_window_hashes(windows)

    def found(table: str, columns: list[str], schema: pa.Schema) -> pa.Table:
        return pa.concat_tables([schema.empty_table(), *of_windows(lake.pieces(table, columns), wanted)])

    state = pa.schema([NODE_STATE.schema.field(name) for name in state_columns])
    return Measured(
        found(CONTENTION.name, CONTENTION.schema.names, CONTENTION.schema),
        found(NODE_STATE.name, state.names, state),
    )
