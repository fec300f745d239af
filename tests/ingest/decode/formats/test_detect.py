"""Format auto: each message is read by the format it looks like, and what looks like none says so."""

import json

import pytest

from ingest.decode.formats.detect import sniff
from ingest.decode.formats.format_registry import FORMATS, decoder_named
from ingest.schema.errors import IngestError
from tests.ingest.foreign import TS, decoded, dumped, reasons, same
from tests.ingest.samples_of import MESSAGES

OWN = {"ts": TS, "node": "n1", "container": "u1", "metric": "cpi", "value": 1.5}


@pytest.mark.parametrize("name", [name for name in MESSAGES if name != "auto"])
def test_every_format_is_told_by_its_looks(name: str) -> None:
    assert {sniff(message).format for message in MESSAGES[name]} == {name}


@pytest.mark.parametrize("name", [name for name in MESSAGES if name != "auto"])
def test_what_it_reads_is_what_the_format_itself_reads(name: str) -> None:
    assert same(decoded("auto", *MESSAGES[name]), decoded(name, *MESSAGES[name]))


def test_rows_of_a_mixed_topic_stay_in_the_order_of_its_messages() -> None:
    result = decoded("auto", *MESSAGES["auto"], b"?", *MESSAGES["auto"])

    assert result.rows["message"].to_pylist() == sorted(result.rows["message"].to_pylist())
    assert reasons(result) == [("", "undecodable")]


def test_our_own_samples_are_taken() -> None:
    assert decoded("auto", dumped(OWN)).rows["metric"].to_pylist() == ["cpi"]


@pytest.mark.parametrize(
    "record", [{"node": "n1", "interval_s": 30.0}, [OWN], {"node": "n1", "event": "add"}, {"node": "n1", "cores": 8}]
)
def test_our_own_records_of_other_tables_are_refused_with_what_to_do(record: object) -> None:
    reject = decoded("auto", dumped(record)).rejects.to_pylist()[0]

    assert "set the topic's format, as in --topic NAME=native-usage" in reject["detail"]


@pytest.mark.parametrize("message", [None, b"", b"{", b"{}", b"[]", b"7", b"\x00", b"\x0a\xff", b'{"labels": 1}'])
def test_what_looks_like_nothing_is_undecodable(message: bytes | None) -> None:
    assert reasons(decoded("auto", message)) == [("", "undecodable")]


def test_a_page_that_begins_with_a_line_feed_is_text() -> None:
    assert sniff(b"\n# TYPE x counter\nx 1\n").format == "prom-text"


def test_json_may_begin_with_white_space_and_have_its_keys_in_any_order() -> None:
    for name in ("telegraf-json", "prom-adapter", "cadvisor", "otlp-json"):
        record = json.loads(MESSAGES[name][0])
        turned = dict(reversed(record.items()))
        assert sniff(b" " + json.dumps(turned, indent=1).encode()).format == name


def test_a_format_that_is_not_known_is_answered_with_those_that_are() -> None:
    with pytest.raises(IngestError, match="auto, telegraf-json, prom-adapter"):
        decoder_named("telegraph")
    assert all(callable(decoder_named(name)) for name in FORMATS)
