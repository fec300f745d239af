"""Line rows: rows of columns of lines, one by one, as what is read and shown. Kernel."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from advisor.pricing.lines import Billed, Fact, Line, Stamp, Subject, line_of


def lines_of(rows: pa.Table, stamp: Stamp, units: Mapping[str, str]) -> tuple[Line, ...]:
    """Each row as a line.

    Args:
        rows: of line_table.SCHEMA.
        stamp: what they share; its hour gives way to theirs.
        units: of resources.

    Raises:
        Nothing.
    """
    starts = rows["hour"].cast(pa.int64()).to_pylist()
    told = zip(rows.to_pylist(), starts, strict=True)
    return tuple(_line(row, replace(stamp, hour_us=start), units) for row, start in told)


def _line(row: dict[str, Any], stamp: Stamp, units: Mapping[str, str]) -> Line:
    subject = Subject(row["account"], row["container"], row["node"], row["resource"])
    evidence = tuple(Fact(name, value) for name, value in json.loads(row["evidence"] or "{}").items())
    line = line_of(stamp, subject, row["kind"], row["amount_micros"], evidence)
    quantity, price = row["micro_unit_minutes"], row["unit_price_micros"]
    billed = None if quantity is None or price is None else Billed(quantity, units[row["resource"]], price)
    return replace(line, memo_micros=row["memo_micros"], billed=billed)
