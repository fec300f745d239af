"""What the tests of foreign formats share: a moment, a pod, and rows in short."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime

import pyarrow as pa

from ingest.decode.contract import Context, Decoded
from ingest.decode.formats.format_registry import FORMATS, decoder_named
from ingest.decode.metrics.known_metrics import EXPORTERS
from ingest.decode.metrics.metric_mapping import MetricMap
from ingest.schema.tables import TIMESTAMP

ARRIVED = datetime(2026, 3, 1, 12, tzinfo=UTC)
TS = int(ARRIVED.timestamp()) - 5
AT = datetime.fromtimestamp(TS, UTC)
RFC = "2026-03-01T11:59:55Z"
UID = "0d5a3f6e-1111-2222-3333-444455556666"
CGROUPFS = f"/kubepods/burstable/pod{UID}"
SYSTEMD = f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID.replace('-', '_')}.slice"
FOREIGN = [name for name in FORMATS if not name.startswith("native-")]
Row = tuple[str, str | None, str, str | None, float | None, str]


def decoded(name: str, *messages: bytes | None, mapping: MetricMap = EXPORTERS) -> Decoded:
    """One batch, by a decoder that remembers nothing yet."""
    return decoder_named(name, mapping)(pa.array(messages, pa.binary()), context(len(messages)))


def context(count: int) -> Context:
    return Context(pa.array([ARRIVED] * count, TIMESTAMP))


def dumped(record: object) -> bytes:
    """Without spaces, as exporters write."""
    return json.dumps(record, separators=(",", ":")).encode()


def short(result: Decoded) -> list[Row]:
    """Container, part, metric, series, value and kind of each row."""
    names = ("container", "part", "metric", "series", "value", "kind")
    return [tuple(row[name] for name in names) for row in result.rows.to_pylist()]


def values(result: Decoded) -> dict[str, float | None]:
    """Value by metric and series."""
    return {f"{r['metric']} {r['series'] or ''}".strip(): r["value"] for r in result.rows.to_pylist()}


def reasons(result: Decoded) -> list[tuple[str, str]]:
    return [(reject["item"], reject["reason"]) for reject in result.rejects.to_pylist()]


def same(one: Decoded, other: Decoded) -> bool:
    """Whether two results are the same but for the order of rejects."""
    rejects = [sorted(map(str, result.rejects.to_pylist())) for result in (one, other)]
    counts = [dict(result.unknown_fields) for result in (one, other)]
    rows = [[{**row, "value": repr(row["value"])} for row in result.rows.to_pylist()] for result in (one, other)]
    return rows[0] == rows[1] and rejects[0] == rejects[1] and counts[0] == counts[1]


def joined(parts: Sequence[Decoded]) -> Decoded:
    """Results of messages one by one, as one batch would give them."""
    rows = [{**row, "message": i} for i, part in enumerate(parts) for row in part.rows.to_pylist()]
    rejects = [{**reject, "message": i} for i, part in enumerate(parts) for reject in part.rejects.to_pylist()]
    counts: dict[str, int] = {}
    for part in parts:
        for name, count in part.unknown_fields.items():
            counts[name] = counts.get(name, 0) + count
    first = parts[0]
    return Decoded(
        first.table,
        pa.Table.from_pylist(rows, schema=first.rows.schema),
        pa.Table.from_pylist(rejects, schema=first.rejects.schema),
        counts,
    )
