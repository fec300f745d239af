"""Line rows: lines one by one, and as rows of columns. Kernel."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from advisor.billing.lines.line import Billed, Fact, Line, Stamp, Subject, line_of
from advisor.billing.lines.schema import SCHEMA


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
    dated = zip(rows.to_pylist(), starts, strict=True)
    return tuple(_line(row, replace(stamp, hour_us=start), units) for row, start in dated)


def rows_of(lines: Sequence[Line]) -> pa.Table:
    """Charge records as rows of line_table.SCHEMA, in their order; of a stamp they contain the hour only.

    Raises:
        Nothing.
    """
    return pa.Table.from_pylist([_row(line) for line in lines], SCHEMA)


def _row(line: Line) -> dict[str, object]:
    evidence = {fact.name: fact.value for fact in line.evidence}
    return {
        "hour": line.stamp.hour_us,
        "kind": line.kind,
        "account": line.subject.account,
        "container": line.subject.container,
        "node": line.subject.node,
        "resource": line.subject.resource,
        "amount_micros": line.amount_micros,
        "memo_micros": line.memo_micros,
        "micro_unit_minutes": None if line.billed is None else line.billed.micro_unit_minutes,
        "unit_price_micros": None if line.billed is None else line.billed.unit_price_micros,
        "evidence": json.dumps(evidence, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        if evidence
        else None,
    }


def _line(row: dict[str, Any], stamp: Stamp, units: Mapping[str, str]) -> Line:
    subject = Subject(row["account"], row["container"], row["node"], row["resource"])
    evidence = tuple(Fact(name, value) for name, value in json.loads(row["evidence"] or "{}").items())
    line = line_of(stamp, subject, row["kind"], row["amount_micros"], evidence)
    quantity, price = row["micro_unit_minutes"], row["unit_price_micros"]
    billed = None if quantity is None or price is None else Billed(quantity, units[row["resource"]], price)
    return replace(line, memo_micros=row["memo_micros"], billed=billed)
