"""Native JSON: what is good becomes rows, what is bad becomes rejects with a reason, and nothing is lost or raised."""

import json
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.decode.contract import REASONS, Context, Decoded, rows_schema
from ingest.decode.formats import native
from ingest.decode.formats.native import decoder
from ingest.schema.tables import LIVE_STATE, MAX_MESSAGE_BYTES, NODES, PLACEMENTS, TIMESTAMP, USAGE, Table
from ingest.schema.unknown_fields import MAX_UNKNOWN_NAMES, OTHERS

ARRIVED = datetime(2026, 3, 1, 12, tzinfo=UTC)
TS = int(ARRIVED.timestamp()) - 5
GOOD = {"cluster": "c", "ts": TS, "interval_s": 30.0, "node": "n1", "container": "u1", "cpu_cores": 1.5, "qos": "LS"}


def decoded(*messages: bytes | None, table: Table = USAGE) -> Decoded:
    arrived = pa.array([ARRIVED] * len(messages), TIMESTAMP)
    return decoder(table)(pa.array(messages, pa.binary()), Context(arrived))


def usage(**changes: object) -> bytes:
    return json.dumps({**GOOD, **changes}).encode()


def reasons(result: Decoded) -> list[tuple[str, str]]:
    return [(reject["item"], reject["reason"]) for reject in result.rejects.to_pylist()]


def test_a_good_record_becomes_a_row_and_what_it_does_not_name_is_null() -> None:
    result = decoded(usage())

    row = result.rows.to_pylist()[0]
    assert row["ts"] == datetime.fromtimestamp(TS, UTC)
    assert (row["cpu_cores"], row["qos"], row["cpi"], row["message"]) == (1.5, "LS", None, 0)
    assert result.rows.schema == rows_schema(USAGE)
    assert not result.rejects.num_rows


def test_one_message_may_hold_several_records() -> None:
    result = decoded(b"[" + usage() + b"," + usage(container="u2", cpi=-1) + b", 7]")

    assert result.rows["container"].to_pylist() == ["u1", "u2"]
    assert result.rows["message"].to_pylist() == [0, 0]
    assert sorted(reasons(result)) == [("1.cpi", "negative"), ("2", "undecodable")]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"node": None}, "missing_key"),
        ({"container": ""}, "missing_key"),
        ({"container": 7}, "wrong_type"),
        ({"ts": None}, "missing_key"),
        ({"ts": "yesterday"}, "bad_timestamp"),
        ({"ts": "2026-02-30T00:00:00Z"}, "bad_timestamp"),
        ({"ts": "2026-03-01T11:59:00"}, "bad_timestamp"),
        ({"ts": True}, "bad_timestamp"),
        ({"ts": 17}, "bad_timestamp"),
        ({"ts": 1e307}, "bad_timestamp"),
        ({"ts": TS + 306}, "future_timestamp"),
        ({"interval_s": None}, "missing_key"),
        ({"interval_s": 0.01}, "out_of_range"),
    ],
)
def test_a_bad_key_rejects_its_record(changes: dict[str, object], reason: str) -> None:
    result = decoded(usage(), usage(**changes))

    assert result.rows["message"].to_pylist() == [0]
    assert reasons(result) == [("0", reason)]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"cpi": "2"}, "wrong_type"),
        ({"cpi": True}, "wrong_type"),
        ({"cpi": [1]}, "wrong_type"),
        ({"cpi": float("nan")}, "wrong_type"),
        ({"cpi": float("-inf")}, "wrong_type"),
        ({"cpi": -1}, "negative"),
        ({"cpi": 0}, "out_of_range"),
        ({"cpi": 1e300}, "out_of_range"),
        ({"qos": "XX"}, "out_of_range"),
        ({"app": 7}, "wrong_type"),
    ],
)
def test_a_bad_value_rejects_that_value_only(changes: dict[str, object], reason: str) -> None:
    (name,) = changes

    result = decoded(usage(**changes), usage())

    assert reasons(result) == [(f"0.{name}", reason)]
    assert result.rows[name].to_pylist()[0] is None
    assert result.rows["cpu_cores"].to_pylist() == [1.5, 1.5]


@pytest.mark.parametrize(
    "message",
    [
        None,
        b"",
        b"{",
        b"7",
        b"null",
        b"[]",
        b'{"app": "\xff"}',
        b'{"app": "\\ud800"}',
        b"[" * 100_000,
        b'{"a":' * 90_000,
        b" " * MAX_MESSAGE_BYTES + b"7",
    ],
)
def test_what_is_no_json_record_is_undecodable_as_a_whole(message: bytes | None) -> None:
    result = decoded(usage(), message, usage())

    assert result.rows["message"].to_pylist() == [0, 2]
    assert reasons(result) == [("", "undecodable")]


@pytest.mark.parametrize(
    "ts", [TS, float(TS), TS * 1000, "2026-03-01T11:59:55Z", "2026-03-01T12:59:55.000000000+01:00"]
)
def test_time_is_read_from_seconds_milliseconds_and_text(ts: object) -> None:
    assert decoded(usage(ts=ts)).rows["ts"].to_pylist() == [datetime.fromtimestamp(TS, UTC)]


def test_unknown_fields_are_counted_by_name_and_only_so_many_names() -> None:
    many = {f"f{i:03}": 0 for i in range(MAX_UNKNOWN_NAMES)}

    result = decoded(usage(**many, zz=1, message=0), usage(zz=2))

    assert result.rows.num_rows == 2
    assert result.unknown_fields["f007"] == 1
    assert result.unknown_fields[OTHERS] == 3
    assert len(result.unknown_fields) == MAX_UNKNOWN_NAMES + 1


def test_a_cluster_that_is_not_named_is_the_contexts() -> None:
    assert decoded(usage(cluster=None)).rows["cluster"].to_pylist() == ["default"]


def test_nodes_carry_labels_lists_and_whole_numbers() -> None:
    node = {"ts": TS, "node": "n1", "labels": {"a": "b"}, "taints": ["t"], "smt": 2.0, "numa_nodes": 1.5, "cores": 8}

    result = decoded(json.dumps(node).encode(), json.dumps({**node, "labels": {"a": 1}}).encode(), table=NODES)

    assert result.rows["labels"].to_pylist() == [[("a", "b")], None]
    assert result.rows["taints"].to_pylist() == [["t"], ["t"]]
    assert result.rows["smt"].to_pylist() == [2, 2]
    assert sorted(reasons(result)) == [
        ("0.labels", "wrong_type"),
        ("0.numa_nodes", "wrong_type"),
        ("0.numa_nodes", "wrong_type"),
    ]


def test_a_placement_event_is_one_of_three() -> None:
    event = {"ts": TS, "node": "n1", "container": "u1", "event": "add", "pinned": True}

    result = decoded(*(json.dumps({**event, "event": e}).encode() for e in ("add", "gone")), table=PLACEMENTS)

    assert result.rows["pinned"].to_pylist() == [True]
    assert reasons(result) == [("0", "out_of_range")]


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from([TS, TS * 1000, "2026-03-01T11:59:55Z", "LS", "add"])
)
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner))
NAMES = sorted({c.name for table in (USAGE, NODES, PLACEMENTS) for c in table.columns} | {"x", "message"})
RECORDS = st.dictionaries(st.sampled_from(NAMES), JSON | SCALARS).map(
    lambda changes: {**GOOD, "event": "add", **changes}
)
BYTES = st.binary(max_size=50) | (JSON | RECORDS | st.lists(RECORDS, max_size=3)).map(lambda v: json.dumps(v).encode())
TABLES = st.sampled_from([USAGE, NODES, PLACEMENTS])


@settings(max_examples=200, deadline=None)
@given(messages=st.lists(st.none() | BYTES, max_size=4), table=TABLES)
def test_no_content_raises_and_every_message_gives_a_row_or_a_reject(
    messages: list[bytes | None], table: Table
) -> None:
    result = decoded(*messages, table=table)

    seen = {*result.rows["message"].to_pylist(), *result.rejects["message"].to_pylist()}
    items = [(r["message"], r["item"]) for r in result.rejects.to_pylist()]
    assert seen == set(range(len(messages)))
    assert len(items) == len(set(items))
    assert set(result.rejects["reason"].to_pylist()) <= set(REASONS)
    assert result.rows.schema == rows_schema(table)
    result.rows.validate(full=True)


@settings(max_examples=100, deadline=None)
@given(messages=st.lists(BYTES, max_size=4), table=TABLES)
def test_every_row_lies_within_the_catalogues_range(messages: list[bytes | None], table: Table) -> None:
    for row in decoded(*messages, table=table).rows.to_pylist():
        for column in (table.by_name[name] for name in row if name != "message"):
            value = row[column.name]
            assert value is not None or not column.required
            if isinstance(value, int | float):
                assert column.low <= value <= column.high


@settings(max_examples=100, deadline=None)
@given(messages=st.lists(BYTES, min_size=1, max_size=4))
def test_a_batch_may_be_cut_anywhere(messages: list[bytes]) -> None:
    whole = decoded(*messages)
    parts = [decoded(message) for message in messages]

    rows = [{**row, "message": i} for i, part in enumerate(parts) for row in part.rows.to_pylist()]
    rejects = [{**reject, "message": i} for i, part in enumerate(parts) for reject in part.rejects.to_pylist()]
    assert whole.rows.to_pylist() == rows
    assert sorted(map(str, whole.rejects.to_pylist())) == sorted(map(str, rejects))


def test_records_that_are_not_like_the_others_change_nothing_about_them() -> None:
    odd = [usage(cpi=True), usage(cpi="2"), b"[" + usage() + b"]", usage(x=1), b"{", usage(node=None), usage(cpi=None)]
    messages = [usage(cpi=1 + number / 1000) for number in range(700)]
    for place, message in zip((0, 3, 255, 256, 300, 511, 699), odd, strict=True):
        messages[place] = message

    whole = decoded(*messages)
    parts = [decoded(message) for message in messages]

    assert whole.rows.to_pylist() == [{**row, "message": i} for i, p in enumerate(parts) for row in p.rows.to_pylist()]
    assert sorted(reasons(whole)) == sorted(reject for part in parts for reject in reasons(part))
    assert whole.unknown_fields == {"x": 1}


GOOD_TEXT = usage()
VALUES = (
    *("1e999", "-1e999", "1e-400", "-0", "NaN", "Infinity", "-Infinity", "01", "1.", "2.0", "2.5", "-1", "17", "1e307"),
    *("9007199254740993", "123456789012345678901234567890", "true", "null", "[1]", "{}", "[]", '["t"]', '["t",null]'),
    *('"2"', '""', r'"\u0000"', r'"\ud800"', r'"\ud83d\ude00"', '{"a":"b"}', '"0-3,8"', '"LS"', '"add"'),
    *("[" * 3_000, '{"x":' * 3_000, f"{TS}", f"{TS}.25", f"{TS}000", '"2026-03-01T11:59:55Z"', '"2026-03-01T11:59:55"'),
)
AROUND = (
    *(b"%b", b"[%b]", b"[%b,%b]", b" %b", b"%b\n", b"\xef\xbb\xbf%b", b"%b,%b", b"%b %b", b"%b\n%b", b"[%b,null]"),
    *(b"[%b]}\n{%b", b'%b],"q":[%b', b'[%b],"q":null', b'%b]}\n{"records":[%b', b'[%b]}\n{"records":[%b]'),
    *(b'[%b],"records":[%b]', b"[%b,[]]", b"[[%b]]", b"[%b,]", b"%b}", b"[%b", b"%b]", b'{"a":%b}', b"[%b,7]"),
)
NAMED = st.sampled_from([*NAMES, "heard_at", "taints", "cpuset", ""])
FIELDS = st.dictionaries(NAMED, st.sampled_from(VALUES), max_size=3)


def written(fields: dict[str, str]) -> bytes:
    """A record whose fields may come twice, each written as it is given."""
    more = "".join(f', "{name}": {value}' for name, value in fields.items())
    return GOOD_TEXT[:-1] + f', "event": "add", "samples": 2, "heard_at": {TS}{more}}}'.encode()


def put(around: bytes, record: bytes) -> bytes:
    return around.replace(b"%b", record)


RECORDS_IN_TEXT = st.builds(put, st.sampled_from(AROUND) | st.just(b"%b"), FIELDS.map(written))
RAW = RECORDS_IN_TEXT | st.sampled_from([b"\xff", GOOD_TEXT])


@settings(max_examples=300, deadline=None)
@given(messages=st.lists(RAW, min_size=1, max_size=5), table=TABLES | st.just(LIVE_STATE))
def test_what_is_read_at_once_is_read_as_if_it_were_read_record_by_record(messages: list[bytes], table: Table) -> None:
    at_once, each = decoded(*messages, table=table), decoded(*messages, None, table=table)  # None: not as usual
    rejects = [sorted(str(one) for one in result.rejects.to_pylist()) for result in (at_once, each)]

    assert at_once.rows.to_pylist() == each.rows.to_pylist()
    assert [one for one in rejects[1] if "the message has no value" not in one] == rejects[0]
    assert at_once.unknown_fields == each.unknown_fields


@pytest.mark.parametrize("around", [b"%b", b"[%b,%b]"])
def test_usual_messages_are_read_at_once(around: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    message = put(around, usage(cpi=2, x="y", app="a"))
    monkeypatch.setattr(native, "parse", lambda _: pytest.fail("read record by record"))

    result = decoded(*[message] * 300)

    assert result.rows.num_rows == 300 * around.count(b"%b") == result.unknown_fields["x"]
