"""Scarcity: base charges weighed by how scarce a resource was said to be; all together pay the same. Kernel.

How scarce an hour will be, and the mean of its day, are published before its month begins, and settled as published.
What that misses by is a true-up line for each account, in proportion to its base.
"""

import json
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from advisor.billing.lines.line import Kind
from advisor.billing.lines.money import MICROS, apportion, exact_total
from advisor.billing.lines.schema import SCHEMA
from features.columnar.asof_join import key_codes, row_of

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LEAST_PPM, MAX_PPM = MICROS // 2, 2 * MICROS
"""A price is halved or doubled at most."""
BEND = 4
"""Power of the forecast utilisation: at half of it hardly anything is scarce."""


def scarcity_ppm(utilisation: Floats) -> Ints:
    """What is published of an hour: how scarce a resource will be.

    Args:
        utilisation: (n,) forecast share of the capacity that is taken, >= 0, 1 is all of it; NaN where there is none.

    Returns:
        (n,) millionths, 0 to 1,000,000, rising ever faster; 0 where nothing was forecast, so that no account pays for
        it.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0047-pricing.md.
    """
    return np.rint(np.clip(np.nan_to_num(utilisation), 0.0, 1.0) ** BEND * MICROS).astype(np.int64)


def factors_ppm(scarcity: Ints, mean_ppm: Ints, gamma_ppm: int) -> Ints:
    """By what a base charge is multiplied.

    Args:
        scarcity: (n,) millionths as published.
        mean_ppm: (n,) mean of the day, as published with it.
        gamma_ppm: how strongly scarcity moves prices, at most 10^9.

    Returns:
        (n,) millionths: 1 + gamma x (scarcity - mean), within LEAST_PPM and MAX_PPM.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0047-pricing.md.
    """
    factors: Ints = np.clip(MICROS + gamma_ppm * (scarcity - mean_ppm) // MICROS, LEAST_PPM, MAX_PPM)
    return factors


def scarcity_rows(base: pa.Table, published: pa.Table, gamma_ppm: int) -> pa.Table:
    """What scarcity adds to or takes off base charges.

    Args:
        base: rows of line_table.SCHEMA of one pool; those of kind `base` that are not credits count.
        published: rows of table `scarcity` of that pool, an hour and resource at most once.
        gamma_ppm: how strongly scarcity moves prices, at most 10^9.

    Returns:
        A row for each base charge that changes, rounded towards zero, in their order.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0047-pricing.md.
    """
    charged = _charged(base)
    theirs, ours = key_codes(published, charged, ["hour", "resource"])
    place = row_of(ours, theirs)
    known = place >= 0
    scarcity, mean = (_whole(published[name])[place[known]] for name in ("scarcity_ppm", "mean_ppm"))
    factor = factors_ppm(scarcity, mean, gamma_ppm)
    amount = _whole(charged["amount_micros"])[known]
    above = np.abs(factor - MICROS)
    added = np.sign(factor - MICROS) * (amount // MICROS * above + amount % MICROS * above // MICROS)
    changed = added != 0
    rows = charged.filter(pa.array(known)).filter(pa.array(changed))
    distinct, which = np.unique(factor[changed], return_inverse=True)
    evidence = pa.array(
        [json.dumps({"factor_ppm": one}, separators=(",", ":")) for one in distinct.tolist()], pa.string()
    )
    columns = {name: rows[name] for name in ("hour", "account", "container", "node", "resource")}
    columns |= {"amount_micros": pa.array(added[changed]), "evidence": evidence.take(pa.array(which))}
    return _rows(columns, "scarcity", rows.num_rows)


def true_up_rows(base: pa.Table, scarcity: pa.Table) -> pa.Table:
    """What brings scarcity back to nothing, for each account in proportion to its base.

    Args:
        base: all rows of kind `base` of a pool and stretch of hours; others, and credits, are skipped.
        scarcity: all rows from `scarcity_rows` of them.

    Returns:
        Rows without an hour, by account, that sum to minus the scarcity rows, to the last unit; those of 0 left out.

    Raises:
        AdvisorError: there is scarcity without any base.

    Source: ours, docs/decisions/0047-pricing.md.
    """
    sums = _charged(base).group_by("account", use_threads=False).aggregate([("amount_micros", "sum")]).to_pylist()
    bases = {row["account"]: row["amount_micros_sum"] for row in sorted(sums, key=lambda one: str(one["account"]))}
    left = -exact_total(_whole(scarcity["amount_micros"]))
    shares = apportion(left, list(bases.values()), list(bases)).tolist()
    owed = {account: share for account, share in zip(bases, shares, strict=True) if share}
    columns: dict[str, pa.Array] = {
        "account": pa.array(list(owed), pa.string()),
        "amount_micros": pa.array(list(owed.values()), pa.int64()),
        "evidence": pa.array(
            [json.dumps({"base_micros": bases[of]}, separators=(",", ":")) for of in owed], pa.string()
        ),
    }
    return _rows(columns, "scarcity_true_up", len(owed))


def _charged(base: pa.Table) -> pa.Table:
    return base.filter(pc.and_(pc.equal(base["kind"], "base"), pc.greater_equal(base["amount_micros"], 0)))


def _rows(columns: Mapping[str, pa.Array | pa.ChunkedArray], kind: Kind, count: int) -> pa.Table:
    """Rows of line_table.SCHEMA; columns that are not given are null."""
    given = {**columns, "kind": pa.array([kind] * count, pa.string())}
    return pa.table([given.get(of.name, pa.nulls(count, of.type)) for of in SCHEMA], schema=SCHEMA)


def _whole(column: pa.ChunkedArray) -> Ints:
    return np.asarray(column.to_numpy(), np.int64)
