"""Sampling: the rows that models learn from and are judged on, all of a lake's or as many as memory holds. An edge."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

from cohabit.training.tables import Sheet
from cohabit.training.train_model import diagnosis_of, training_table
from features.training.diagnosis_rows import STATE_COLUMNS
from features.training.sample_reader import Measured, Sample, draw_local, measured_in, rows_there
from features.training.stratified_sample import PRESSURE_EDGES, PROPORTIONAL, SLOWDOWN_EDGES, Draw
from ingest.lake.row_filter import FOREVER
from ingest.lake.tables import Lake
from models.training.diagnosis_model import DiagnosisRows, read_diagnosis

MICROSECOND = timedelta(microseconds=1)
POWER = PROPORTIONAL
"""Bounds are calibrated, and errors reported, on rows that count alike, so every stratum keeps the same share."""


@dataclass(frozen=True, slots=True)
class OnSpark:
    """Where a sample is drawn by Spark: its master, and the memory of its driver."""

    master: str
    driver_memory: str

    @property
    def settings(self) -> dict[str, str]:
        """Of the session: how large a sample may be is --max-rows' to say, not Spark's limit on results."""
        return {"spark.driver.memory": self.driver_memory, "spark.driver.maxResultSize": "0"}


def sample_of(lake: Lake, max_rows: int, spark: OnSpark | None = None, until: datetime | None = None) -> Sample:
    """All training rows of a lake, or a sample of them where there are more than so many.

    Args:
        lake: with table `training`.
        max_rows: that are kept.
        spark: where a sample is drawn; None draws it here.
        until: end of the last window whose rows count; None for all.

    Raises:
        InconsistentDataset: there are none.
        FeaturesError: max_rows are fewer than strata.
    """
    end = FOREVER if until is None else until + MICROSECOND
    if rows_there(lake, end) <= max_rows:
        return Sample(training_table(lake, end))
    if spark is None:
        return draw_local(lake, max_rows, power=POWER, end=end)
    from features.jobs.spark.session import spark_session
    from features.jobs.spark.stratified_reader import draw_with_spark

    with spark_session(spark.master, spark.settings) as session:
        return draw_with_spark(session, lake, max_rows, power=POWER, end=end)


def diagnosis_of_sample(lake: Lake, sample: Sample, spark: OnSpark | None = None) -> DiagnosisRows:
    """What was measured in the windows of the rows; of a sample nothing else is held."""
    if sample.draw is None:
        return diagnosis_of(lake, sample.rows)
    found = _measured(lake, sample, spark)
    return read_diagnosis(sample.rows, found.contention, found.state)


def _measured(lake: Lake, sample: Sample, spark: OnSpark | None) -> Measured:
    if spark is None:
        return measured_in(lake, sample.rows, STATE_COLUMNS)
    from features.jobs.spark.session import spark_session
    from features.jobs.spark.stratified_reader import measured_with_spark

    with spark_session(spark.master, spark.settings) as session:
        return measured_with_spark(session, lake, sample.rows, STATE_COLUMNS)


def sample_words(draw: Draw) -> str:
    """What was drawn, in a sentence."""
    return (
        f"a sample: {draw.kept.sum():,} of {draw.rows.sum():,} training rows, drawn by {len(draw.rows):,} strata of "
        f"app, slowdown and pressure (seed {draw.seed}); weights make up for the rows left out; --max-rows takes more"
    )


def sample_sheet(draw: Draw) -> Sheet:
    """Rows there are and rows kept, by band of slowdown and of pressure; apps added up."""
    slowdown, pressure = (draw.strata[name].to_numpy() for name in ("slowdown_band", "pressure_band"))
    rows: list[tuple[str, ...]] = []
    for band in np.unique(np.column_stack([slowdown, pressure]), axis=0):
        own = (slowdown == band[0]) & (pressure == band[1])
        there, kept = int(draw.rows[own].sum()), int(draw.kept[own].sum())
        named = f"{_band(SLOWDOWN_EDGES, band[0])}, {_band(PRESSURE_EDGES, band[1])}"
        rows.append((named, f"{there:,}", f"{kept:,}", f"{kept / there:.1%}"))
    return Sheet("training rows by slowdown (ratio), pressure (share of the node)", ("", "rows", "kept", "share"), rows)


def append_sample(report: Path, draw: Draw) -> None:
    """Say in a report that was written what its rows are."""
    sheet = sample_sheet(draw)
    lines = ["", "## Sample", "", f"All figures are of {sample_words(draw)}.", ""]
    lines += [f"| {' | '.join(line)} |" for line in (sheet.columns, ("---",) * len(sheet.columns), *sheet.rows)]
    report.write_text("\n".join([report.read_text(), *lines, ""]))


def _band(edges: tuple[float, ...], number: int) -> str:
    low, high = (edges[number - 1] if number else None), (edges[number] if number < len(edges) else None)
    return f"from {low:g}" if high is None else f"below {high:g}" if low is None else f"{low:g} to {high:g}"
