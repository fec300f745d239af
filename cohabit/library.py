"""Cohabit as a library, for notebooks: tables of the lake as frames, and models that predict. An edge.

`import cohabit` offers `cohabit.read`, which needs the extra `read`, and `cohabit.load_model`, which needs `train`.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from cohabit.config.errors import CohabitError

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import polars as pl
    from numpy.typing import NDArray

    from advisor.scoring.loaded_model import Model


class ArrowTable(Protocol):
    """A frame of pyarrow, pandas 2.2, Polars or DuckDB: whatever hands its columns over by Arrow's C stream."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Its columns."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a table.

    Args:
        table: their columns, as Arrow has them.
    """

    table: pa.Table

    def __len__(self) -> int:
        """How many."""
        return int(self.table.num_rows)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """For whatever reads Arrow: `duckdb.sql("from rows")`, `polars.from_arrow(rows)`."""
        return self.table.__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> "pd.DataFrame":
        """As a frame of pandas, which must be installed."""
        return self.table.to_pandas()

    def to_polars(self) -> "pl.DataFrame":
        """As a frame of Polars, which must be installed."""
        import polars

        frame = polars.from_arrow(self.table)
        assert isinstance(frame, polars.DataFrame)  # noqa: S101 - of a table it always is
        return frame


def read(
    table: str,
    *,
    since: datetime | str | None = None,
    until: datetime | str | None = None,
    columns: Sequence[str] | None = None,
    nodes: Sequence[str] | None = None,
    as_of: datetime | str | None = None,
    lake: str | Path | None = None,
) -> Rows:
    """Rows of a table of the lake, each key once, sorted by time and key.

    Args:
        table: its name; docs/reference/tables.md lists all, with the meaning and unit of each column.
        since: first time, inclusive; an ISO 8601 text or a datetime, UTC where it names no zone. None: the oldest.
        until: last time, exclusive. None: the newest.
        columns: to return; None returns all.
        nodes: only rows of these nodes.
        as_of: only rows that had arrived by then; of tables that come from streams.
        lake: its address; None takes COHABIT_LAKE, or the default.

    Returns:
        The rows; what was not measured is null.

    Raises:
        CohabitError: there is no such lake, a time cannot be read, or the table lacks what was asked for.
        IngestError: there is no such table, or its store cannot be reached.
    """
    from cohabit.config.settings import read_settings
    from cohabit.terminal.locations import existing_lake
    from ingest.lake.row_filter import EPOCH, FOREVER

    opened = existing_lake(read_settings(os.environ), None if lake is None else str(lake), reads=True)
    start, end = _moment(since) or EPOCH, _moment(until) or FOREVER
    kind = opened.table(table)
    columns, nodes = _names_given("columns", columns), _names_given("nodes", nodes)
    if unknown := sorted({*(columns or ())} - kind.by_name.keys()):
        raise CohabitError(f"table {table} has no column {', '.join(unknown)}: it has {', '.join(kind.by_name)}")
    needed = {"since": kind.time, "until": kind.time, "nodes": "node", "as_of": "arrived_at"}
    given = {"since": since, "until": until, "nodes": nodes, "as_of": as_of}
    if lacking := [name for name, value in given.items() if value is not None and needed[name] not in kind.by_name]:
        raise CohabitError(f"table {table} has no column {needed[lacking[0]] or 'with a time'} for {lacking[0]}=")
    if start > end:
        raise CohabitError(f"since={since!s} is later than until={until!s}: there is nothing between them")
    if not kind.time:
        return Rows(opened.rows(table, columns=columns))
    return Rows(opened.read(table, start, end, columns, nodes=nodes, as_of=_moment(as_of)))


def _names_given(argument: str, given: Sequence[str] | None) -> Sequence[str] | None:
    if given is not None and (isinstance(given, str) or not all(isinstance(one, str) for one in given)):
        raise CohabitError(f"{argument}={given!r}: give a list of names, as in {argument}=['a']")
    return given


@dataclass(frozen=True, slots=True, repr=False)
class SlowdownModel:
    """A placement model: how much slower containers are on nodes.

    Args:
        model: as it is served.
    """

    model: "Model"

    def __repr__(self) -> str:
        return f"SlowdownModel({self.name!r})"

    @property
    def name(self) -> str:
        """The bundle's."""
        return self.model.bundle.name

    @property
    def features(self) -> tuple[str, ...]:
        """Columns that it reads, besides cluster and app; docs/reference/features.md has their meanings and units."""
        from features.schema.catalog import RAW_NAMES

        return tuple(RAW_NAMES)

    def predict(self, frame: ArrowTable) -> pa.Table:
        """Expected slowdown and its bound of each row.

        Args:
            frame: rows with some of the columns of table `training`, such as `cohabit.read("training")`; a column that
                is missing, like a null, is not known. `cluster` and `app` say whose margin counts.

        Returns:
            As many rows: `slowdown` and `slowdown_bound`, ratios to the same container alone, 1 being no slowdown; the
            bound holds for the share of cases that the bundle was calibrated for.

        Raises:
            CohabitError: no column is one that the model reads.
        """
        import numpy as np

        from features.columnar.arrow_columns import floats
        from features.schema.catalog import RAW_NAMES

        rows = pa.table(frame)
        if not {*RAW_NAMES} & {*rows.column_names}:
            raise CohabitError(
                f"bundle {self.name} reads none of the columns {', '.join(rows.column_names[:5])}: give rows of "
                f"table `training`, with columns such as {RAW_NAMES[0]}"
            )
        unknown = np.full(rows.num_rows, np.nan)
        raw = np.column_stack([floats(rows[n]) if n in rows.column_names else unknown for n in RAW_NAMES])
        clusters, apps = np.array(_names(rows, "cluster")), np.array(_names(rows, "app"))
        predicted = np.ones((rows.num_rows, 2))
        for cluster in np.unique(clusters):
            own = clusters == cluster
            predicted[own] = self._of_cluster(str(cluster), apps[own], raw[own])
        return pa.table({"slowdown": predicted[:, 0], "slowdown_bound": predicted[:, 1]})

    def _of_cluster(self, cluster: str, apps: "NDArray[np.str_]", raw: "NDArray[np.float64]") -> "NDArray[np.float64]":
        """(n, 2) slowdown and its bound of (n,) apps' rows of (n, len(RAW)) features."""
        import numpy as np

        from features.schema.catalog import RAW_NAMES
        from features.training.model_input import complete
        from models.bundle.margins import margins_of
        from models.calibration.log_link import upper_ratio

        known, group = np.unique(apps, return_inverse=True)
        margins = margins_of(self.model.entry, cluster, known.tolist())
        features = complete(raw, self.model.predictor.medians[: len(RAW_NAMES)])
        said = self.model.predictor.predict(features, margins.known(group))
        profiled = np.nan_to_num(raw[:, RAW_NAMES.index("profile_windows")]) > 0
        bound = upper_ratio(said.log_mean, said.spread + margins.floor, margins.multipliers(group, profiled))
        return np.column_stack([said.ratio(), bound])


def load_model(name: str | None = None, *, registry: str | Path | None = None) -> SlowdownModel:
    """The placement model of a bundle.

    Args:
        name: of the bundle; None: the champion.
        registry: folder of bundles; None takes COHABIT_REGISTRY, or the default.

    Raises:
        CohabitError: there is no champion.
        ModelsError, AdvisorError: there is no such bundle, or it cannot be used.
    """
    from advisor.scoring.loaded_model import open_model
    from cohabit.config.settings import read_settings
    from cohabit.terminal.locations import registry_of

    shelf = registry_of(read_settings(os.environ), None if registry is None else Path(registry))
    bundle = shelf.current() if name is None else shelf.bundle(name).directory
    if bundle is None:
        raise CohabitError(f"{shelf.root} has no champion: name a bundle, or promote one with `cohabit model promote`")
    return SlowdownModel(open_model(bundle, shelf.trust))


def _names(rows: pa.Table, column: str) -> list[str]:
    return [str(value or "") for value in rows[column].to_pylist()] if column in rows.column_names else [""] * len(rows)


def _moment(given: datetime | str | None) -> datetime | None:
    if given is None:
        return None
    try:
        moment = given if isinstance(given, datetime) else datetime.fromisoformat(str(given))
    except ValueError as error:
        raise CohabitError(f"{given!r} is no time: write it as in 2026-03-01T12:00") from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
