"""The same features written by hand for Polars and for DuckDB: what the job's speed is compared with.

State of every container and minute (means of all signals, own demand and peak, neighbours' sums, maxima, bursts and
best-effort parts by resource), then five-minute windows of it. No rule for missing values, late rows or duplicates.
"""

from collections.abc import Iterator, Sequence

import duckdb
import polars as pl
import pyarrow as pa

from features.schema.catalog import RESOURCES, Resource
from features.schema.tables import SIGNAL_NAMES

KEYS = ("cluster", "node", "window_end", "container")
PLACE = ("cluster", "node", "window_end")
MINUTE_US, WINDOW_US = 60_000_000, 300_000_000
FEATURES = ("pressure", "max_neighbour", "burst", "pressure_be")


def with_polars(files: Sequence[str], nodes: pa.Table) -> pl.DataFrame:
    """Five-minute windows, by Polars."""
    names = [f"{feature}_{r.name}" for feature in FEATURES for r in RESOURCES]
    largest = (pl.col(f"pressure_{r.name}").max().alias(f"max_{r.name}") for r in RESOURCES)
    five = state_with_polars(files, nodes).rename({"window_end": "minute"}).with_columns(_end("minute", WINDOW_US))
    return five.group_by(KEYS).agg(pl.len().alias("minutes"), *(pl.col(c).mean() for c in names), *largest).collect()


def state_with_polars(files: Sequence[str], nodes: pa.Table) -> pl.LazyFrame:
    """Minutes of containers with all their features, by Polars."""
    state = pl.scan_parquet(list(files)).with_columns(_end("ts", MINUTE_US)).group_by(KEYS).agg(*_aggregates())
    known = pl.DataFrame(nodes.select(["cluster", "node", *dict.fromkeys(r.capacity for r in RESOURCES)])).lazy()
    capacity = known.rename({r.capacity: f"capacity_{r.name}" for r in RESOURCES})
    shares = state.join(capacity, on=["cluster", "node"], how="left").with_columns(*_shares())
    return shares.with_columns(*_over_node()).with_columns(*_seconds()).with_columns(*_neighbours())


def _end(column: str, length_us: int) -> pl.Expr:
    micros = pl.col(column).dt.epoch("us")
    return pl.from_epoch((micros - 1000) // length_us * length_us + length_us, "us").alias("window_end")


def _use(resource: Resource) -> pl.Expr:
    return pl.sum_horizontal(*(pl.col(c) for c in resource.usage), ignore_nulls=False)


def _aggregates() -> Iterator[pl.Expr]:
    weight = pl.col("interval_s")
    yield from (((pl.col(c) * weight).sum() / weight.sum()).alias(c) for c in SIGNAL_NAMES)
    yield from (_use(r).max().alias(f"top_{r.name}") for r in RESOURCES)
    yield from (pl.col(c).last() for c in ("app", "team", "qos"))
    yield from (pl.len().alias("samples"), pl.col("arrived_at").max())


def _shares() -> Iterator[pl.Expr]:
    for r in RESOURCES:
        capacity = pl.col(f"capacity_{r.name}")
        yield (_use(r) / capacity).alias(f"demand_{r.name}")
        yield (pl.col(f"top_{r.name}") / capacity).alias(f"peak_{r.name}")


def _over_node() -> Iterator[pl.Expr]:
    is_be = pl.col("qos") == "BE"
    yield (pl.len().over(PLACE) - 1).alias("neighbours")
    yield (is_be.sum().over(PLACE) - is_be.cast(pl.Int64)).alias("neighbours_be")
    for r in RESOURCES:
        demand = pl.col(f"demand_{r.name}")
        burst = pl.col(f"peak_{r.name}") - demand
        own_be = pl.when(is_be).then(demand).otherwise(0.0)
        yield (demand.sum().over(PLACE) - demand).alias(f"pressure_{r.name}")
        yield (burst.sum().over(PLACE) - burst).alias(f"burst_{r.name}")
        yield (own_be.sum().over(PLACE) - own_be).alias(f"pressure_be_{r.name}")
        yield demand.max().over(PLACE).alias(f"first_{r.name}")


def _seconds() -> Iterator[pl.Expr]:
    for r in RESOURCES:
        demand, first = pl.col(f"demand_{r.name}"), pl.col(f"first_{r.name}")
        yield pl.when(demand < first).then(demand).max().over(PLACE).alias(f"second_{r.name}")


def _neighbours() -> Iterator[pl.Expr]:
    for r in RESOURCES:
        first, second = pl.col(f"first_{r.name}"), pl.col(f"second_{r.name}")
        at_top = pl.col(f"demand_{r.name}") == first
        yield pl.when(at_top).then(second).otherwise(first).alias(f"max_neighbour_{r.name}")


def with_duckdb(files: Sequence[str], nodes: pa.Table) -> pa.Table:
    """Five-minute windows, by DuckDB."""
    with duckdb.connect() as connection:
        connection.execute("SET threads = 2; SET TimeZone = 'UTC'")
        connection.register("nodes", nodes)
        return connection.sql(_sql(), params=[list(files)]).to_arrow_table()


def _sql() -> str:
    """The whole query; every name in it is from our own catalogue."""
    use = {r.name: " + ".join(r.usage) for r in RESOURCES}
    means = ", ".join(f"sum({c} * interval_s) / sum(interval_s) AS {c}" for c in SIGNAL_NAMES)
    tops = ", ".join(f"max({expression}) AS top_{name}" for name, expression in use.items())
    demands = ", ".join(
        f"({use[r.name]}) / n_{r.capacity} AS demand_{r.name}, top_{r.name} / n_{r.capacity} AS peak_{r.name}"
        for r in RESOURCES
    )
    capacities = ", ".join(f"{c} AS n_{c}" for c in dict.fromkeys(r.capacity for r in RESOURCES))
    over = "OVER (PARTITION BY cluster, node, window_end)"
    totals = ", ".join(
        f"sum(demand_{r.name}) {over} - demand_{r.name} AS pressure_{r.name}, "
        f"sum(peak_{r.name} - demand_{r.name}) {over} - (peak_{r.name} - demand_{r.name}) AS burst_{r.name}, "
        f"sum(CASE WHEN qos = 'BE' THEN demand_{r.name} ELSE 0 END) {over} "
        f"- CASE WHEN qos = 'BE' THEN demand_{r.name} ELSE 0 END AS pressure_be_{r.name}, "
        f"max(demand_{r.name}, 2) {over} AS two_{r.name}"
        for r in RESOURCES
    )
    busiest = ", ".join(
        f"CASE WHEN demand_{r.name} = two_{r.name}[1] THEN two_{r.name}[2] ELSE two_{r.name}[1] END "
        f"AS max_neighbour_{r.name}"
        for r in RESOURCES
    )
    wide = ", ".join(f"avg({f}_{r.name}) AS {f}_{r.name}" for f in FEATURES for r in RESOURCES)
    largest = ", ".join(f"max(pressure_{r.name}) AS max_{r.name}" for r in RESOURCES)
    minute = f"(epoch_us(ts) - 1000) // {MINUTE_US} * {MINUTE_US} + {MINUTE_US}"
    window = f"(window_end - 1000) // {WINDOW_US} * {WINDOW_US} + {WINDOW_US}"
    return f"""
    WITH state AS (
        SELECT cluster, node, {minute} AS window_end, container, {means}, {tops}, last(app) AS app, last(team) AS team,
               last(qos) AS qos, count(*) AS samples, max(arrived_at) AS arrived_at
        FROM read_parquet(?) GROUP BY ALL),
    shares AS (
        SELECT state.*, {demands}
        FROM state LEFT JOIN (SELECT cluster, node, {capacities} FROM nodes) USING (cluster, node)),
    totals AS (SELECT *, {totals}, count(*) {over} - 1 AS neighbours FROM shares),
    features AS (SELECT *, {busiest} FROM totals)
    SELECT cluster, node, {window} AS window_end, container, count(*) AS minutes, {wide}, {largest}
    FROM features GROUP BY 1, 2, 3, 4
    """  # noqa: S608 (names are the catalogue's)
