"""Sampling: which training rows are kept when there are more than memory holds, and what each then stands for. Kernel.

Rows are kept by stratum: an app, how far it was slowed down, how hard its neighbours pressed. Of each a share is kept;
the weight of a kept row is divided by that share, so that weighted totals stay what they were.
Within a stratum the rows with the smallest keyed hashes are kept. So the same rows are kept whatever their order and
however they are parted, and a larger sample holds the smaller one.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heapify, heapreplace

import numpy as np
import pyarrow as pa

from features.columnar.arrow_columns import Floats, Ints, floats
from features.columnar.asof_join import key_codes, row_of
from features.columnar.hashing import Hashes, row_hashes
from features.schema.catalog import PRESSURES
from features.schema.errors import FeaturesError
from features.schema.tables import TRAINING

SLOWDOWN_EDGES = (1.1, 1.25, 1.5)
"""Ratios at which bands of slowdown begin; from the first on a row counts as harmed, see docs/evaluation.md."""
PRESSURE_EDGES = (0.5, 1.0)
"""Shares of the node at which bands of the largest known pressure begin."""
COUNTED = ["cluster", "app", "log_slowdown", *PRESSURES]
"""Columns of table training that say which stratum a row is of."""
STRATUM = ["cluster", "app", "slowdown_band", "pressure_band"]
TALLY = pa.schema(
    [("cluster", pa.string()), ("app", pa.string()), *((name, pa.int64()) for name in (*STRATUM[2:], "rows"))]
)
"""What counted strata look like."""
MAX_TALLIED = 1_000_000
"""Rows of tallies that are held before they are added up."""
EVEN, BETWEEN, PROPORTIONAL = 0.0, 0.5, 1.0
"""Powers of a stratum's size that its quota grows with: the same for all, a compromise, the same share of all."""
SPARE_DEVIATIONS, SPARE_ROWS = 8.0, 32
"""So many deviations and rows more than a quota lie below the hash under which the kept rows are looked for."""


@dataclass(frozen=True)
class Draw:
    """How many rows of each stratum are kept, and the seed that says which.

    Args:
        strata: STRATUM, `rows` there are and `kept` of them; sorted by STRATUM.
        max_rows: how many were asked for.
        power: see `quotas`.
        seed: key of the hash.
    """

    strata: pa.Table
    max_rows: int
    power: float
    seed: int

    @property
    def rows(self) -> Ints:
        """(h,) rows of each stratum."""
        return np.asarray(self.strata["rows"].to_numpy(), np.int64)

    @property
    def kept(self) -> Ints:
        """(h,) rows of each stratum that are kept, 1 to all."""
        return np.asarray(self.strata["kept"].to_numpy(), np.int64)

    @property
    def leaves_out(self) -> bool:
        """Whether there are rows that are not kept."""
        return bool((self.kept < self.rows).any())


def strata_of(rows: pa.Table) -> pa.Table:
    """The stratum of each row: STRATUM, bands numbered from 0.

    Args:
        rows: cluster, app, log_slowdown (never missing in table training) and PRESSURES; a row without any known
            pressure is in the lowest band.

    Source: ours, docs/decisions/0022-sampling.md.
    """
    pressure = np.max([np.nan_to_num(floats(rows[name])) for name in PRESSURES], axis=0)
    bands = {
        "slowdown_band": np.digitize(floats(rows["log_slowdown"]), np.log(SLOWDOWN_EDGES)),
        "pressure_band": np.digitize(pressure, PRESSURE_EDGES),
    }
    return pa.table({"cluster": rows["cluster"], "app": rows["app"], **bands})


def tally(rows: pa.Table) -> pa.Table:
    """How many rows of table training lie in each stratum that has any: STRATUM and `rows`, sorted."""
    return total([strata_of(rows).append_column("rows", pa.array(np.ones(rows.num_rows, np.int64)))])


def total(tallies: Iterable[pa.Table], *, max_held: int = MAX_TALLIED) -> pa.Table:
    """Tallies of parts, as one of the whole; added up whenever more than `max_held` rows have come together."""
    held = [TALLY.empty_table()]
    for one in tallies:
        held.append(one)
        if sum(part.num_rows for part in held[1:]) > max_held:
            held = [_added(held)]
    return _added(held)


def _added(tallies: list[pa.Table]) -> pa.Table:
    counted = pa.concat_tables(tallies).group_by(STRATUM, use_threads=False).aggregate([("rows", "sum")])
    return counted.rename_columns([*STRATUM, "rows"]).sort_by([(name, "ascending") for name in STRATUM])


def draw_of(tallied: pa.Table, max_rows: int, *, power: float = BETWEEN, seed: int = 0) -> Draw:
    """How many rows of each stratum to keep, see `quotas`, for a tally of all rows."""
    kept = quotas(tallied["rows"].to_numpy(), max_rows, power)
    return Draw(tallied.append_column("kept", pa.array(kept)), max_rows, power, seed)


def quotas(rows: Ints, max_rows: int, power: float) -> Ints:
    """How many rows of each stratum are kept.

    Args:
        rows: (h,) rows of each stratum, >= 1.
        max_rows: rows of all strata together, at most.
        power: 0 gives every stratum the same quota, 1 the same share; in [0, 1].

    Returns:
        (h,) min(rows, ceil(t x rows ** power)), t as large as max_rows allows, what is left over one each to the strata
        that have the least of their share: at least 1, and together max_rows, or all rows where there are no more.
        More max_rows never mean fewer of any stratum.

    Raises:
        FeaturesError: max_rows are fewer than strata, some of which could then stand for nothing.

    Source: power allocation, Bankier, The American Statistician 42(3), 1988; filled up by bisection.
    """
    if max_rows < len(rows):
        raise FeaturesError(
            f"{max_rows:,} training rows cannot stand for {len(rows):,} strata (app, band of slowdown, band of "
            f"pressure): ask for {len(rows):,} rows at least"
        )
    size = rows.astype(np.float64) ** power

    def filled(level: float) -> Ints:
        return np.clip(np.ceil(level * size), 1, rows).astype(np.int64)

    if rows.sum() <= max_rows:
        return rows.astype(np.int64)
    low, high = 0.0, float(np.max(rows / size))
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if filled(middle).sum() <= max_rows else (low, middle)
    found = np.maximum(filled(low) - 1, 1)  # one less: rounding may have given a stratum the one that another is due
    due = [(float(found[i] / size[i]), int(i)) for i in np.flatnonzero(found < rows)]
    heapify(due)
    for _ in range(max_rows - int(found.sum())):
        _, first = due[0]
        found[first] += 1
        heapreplace(due, (float(found[first] / size[first]) if found[first] < rows[first] else np.inf, first))
    return found


def chosen(rows: pa.Table, draw: Draw) -> pa.Table:
    """Those rows that are kept, as far as these rows alone decide it: of each stratum the smallest hashes.

    Args:
        rows: rows of table training, all or a part; each key once.
        draw: of all rows.

    Returns:
        The rows that are left, in their order, weights untouched. Chosen of all the rows chosen of parts are those
        chosen of the whole.

    Source: bottom-k sketches, Cohen and Kaplan, PODC 2007; here a stratum each, hashed by the row's key.
    """
    stratum, hashed = _places(rows, draw), row_hashes(rows, draw.seed)
    below = np.flatnonzero(_uniform(hashed) < _limits(draw)[stratum])
    stratum, hashed = stratum[below], hashed[below]
    order = np.lexsort((hashed, stratum))
    first = np.searchsorted(stratum[order], stratum[order], side="left")
    among = np.arange(len(order)) - first
    return rows.take(pa.array(np.sort(below[order[among < draw.kept[stratum[order]]]])))


def chosen_of(pieces: Iterable[pa.Table], draw: Draw) -> pa.Table:
    """The chosen rows of all pieces; whenever twice as many have come together, those that cannot stay are let go."""
    held, rows, most = [TRAINING.schema.empty_table()], 0, int(draw.kept.sum())
    for piece in pieces:
        held.append(chosen(piece, draw))
        rows += held[-1].num_rows
        if rows > 2 * most:
            held = [chosen(pa.concat_tables(held), draw).combine_chunks()]
            rows = held[0].num_rows
    return chosen(pa.concat_tables(held), draw)


def weighted(rows: pa.Table, draw: Draw) -> pa.Table:
    """The chosen rows, each `weight` divided by the share of its stratum that is kept.

    Source: Horvitz and Thompson, JASA 47(260), 1952.
    """
    stands_for = (draw.rows / draw.kept)[_places(rows, draw)]
    weight = pa.array(floats(rows["weight"]) * stands_for)
    return rows.set_column(rows.column_names.index("weight"), "weight", weight)


def in_order(rows: pa.Table) -> pa.Table:
    """The same rows in the order in which a lake gives them: by time, then by key."""
    return rows.sort_by([(name, "ascending") for name in dict.fromkeys([TRAINING.time, *TRAINING.key])])


def _uniform(hashed: Hashes) -> Floats:
    """(n,) the same order in [0, 1)."""
    return np.asarray((hashed >> np.uint64(11)) * 2.0**-53, np.float64)


def _limits(draw: Draw) -> Floats:
    """(h,) the chosen rows of each stratum lie below this: a part then needs to hand on few rows more than are kept.

    That fewer rows than the quota lie below has a chance under 1e-14.
    """
    spare = SPARE_DEVIATIONS * np.sqrt(draw.kept) + SPARE_ROWS
    return np.asarray(np.where(draw.kept < draw.rows, (draw.kept + spare) / draw.rows, 1.0), np.float64)


def _places(rows: pa.Table, draw: Draw) -> Ints:
    """(n,) row of each row's stratum in the draw."""
    return row_of(*key_codes(strata_of(rows), draw.strata, STRATUM))
