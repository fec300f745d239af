"""Rough inputs: what a producer puts around a record is named, and units and names of newer releases are read."""

import json
from collections.abc import Callable
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from ingest.decode.contract import Context, Decoded
from ingest.decode.formats.format_registry import decoder_named

NOON_US = 1_772_366_400_000_000
FORMATS = ("auto", "telegraf-json", "prom-adapter", "otlp-json", "otlp-proto", "cadvisor", "native-usage")


def decoded(form: str, *messages: bytes) -> Decoded:
    arrived = pa.array([NOON_US] * len(messages), pa.timestamp("us", tz="UTC"))
    return decoder_named(form)(pa.array(messages, pa.binary()), Context(arrived))


def reason(found: Decoded) -> str:
    (row,) = found.rejects.to_pylist()
    return str(row["detail"])


@pytest.mark.parametrize("form", FORMATS)
def test_a_frame_of_a_schema_registry_is_named_with_its_schema(form: str) -> None:
    said = reason(decoded(form, b"\0\0\0\0\x07" + b'{"fields":{}}'))

    assert "framed for a schema registry" in said
    assert "schema id 7" in said


@pytest.mark.parametrize("form", [form for form in FORMATS if form != "otlp-proto"])
def test_an_envelope_of_kafka_connect_is_named_with_the_setting(form: str) -> None:
    message = json.dumps({"schema": {"type": "struct"}, "payload": {"ts": 1}}).encode()

    assert "value.converter.schemas.enable=false" in reason(decoded(form, message))


@pytest.mark.parametrize("form", [form for form in FORMATS if form != "otlp-proto"])
@pytest.mark.parametrize("mark", ["utf-8-sig", "utf-16"])
def test_a_byte_order_mark_is_named(form: str, mark: str) -> None:
    assert "byte-order mark" in reason(decoded(form, '{"fields":{"a":1}}'.encode(mark)))


@pytest.mark.parametrize("power", range(10))
def test_any_power_of_ten_of_a_second_is_a_unit_of_telegrafs_times(power: int) -> None:
    stamp = NOON_US // 10**6 * 10**power
    tags = {"host": "n1", "cpu": "cpu-total"}
    record = {"name": "mem", "tags": tags, "fields": {"used": 5}, "timestamp": stamp}

    (row,) = decoded("telegraf-json", json.dumps(record).encode()).rows.to_pylist()

    assert row["ts"] == datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize("spelled", [lambda name: f'{{"{name}",', lambda name: f"{name}{{"])
@pytest.mark.parametrize("form", ["prom-text", "auto"])
def test_quoted_names_of_prometheus_3_are_read(form: str, spelled: Callable[[str], str]) -> None:
    labels = 'namespace="shop",pod="p2",node="n1",container="web","k8s.pod.label.app"="x"'
    line = f"{spelled('container_memory_working_set_bytes')}{labels}}} 1.5e9 {NOON_US // 1000}\n"

    (row,) = decoded(form, line.encode()).rows.to_pylist()

    assert (row["container"], row["value"], row["app"]) == ("shop/p2", 1.5e9, "x")
