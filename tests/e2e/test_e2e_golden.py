"""What `make e2e-golden` reads, rebuilds and judges, without the programs that it builds."""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from math import inf, nan
from pathlib import Path

import pytest

from e2e.golden.docs_page import kept_metrics, own_records, resource_attributes, sections, telegraf_configs
from e2e.golden.judging import Landed, complaints
from e2e.golden.modules import COLLECTOR, COLLECTOR_PART, SUMS, pinned
from e2e.golden.rebuilt import adapter_records, go_float, go_pages, text_page
from e2e.golden.sources import NANO, SOURCES, Golden, Source

PAGE = sections((Path(__file__).parents[2] / "docs" / "ingest.md").read_text())
AT = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_the_page_names_a_topic_and_its_format_for_each_exporter() -> None:
    named = {
        heading: PAGE[heading].topic() for heading in ("Prometheus", "Telegraf", "OpenTelemetry Collector", "cAdvisor")
    }

    assert named == {
        "Prometheus": ("metrics", "prom-adapter"),
        "Telegraf": ("telegraf", "telegraf-json"),
        "OpenTelemetry Collector": ("otlp_metrics", "otlp-proto"),
        "cAdvisor": ("stats", "cadvisor"),
    }


def test_configurations_of_the_page_are_read_as_exporters_read_them() -> None:
    configs = telegraf_configs(PAGE["Telegraf"])

    assert set(configs) == {"docker", "kubernetes", "system"}
    assert re.findall(r"\[\[inputs\.(\w+)", configs["system"]) == ["cpu", "mem", "net", "diskio"]
    assert "collect_cpu_time = true" in configs["system"]
    assert all('json_timestamp_units = "1ms"' in config for config in configs.values())
    assert json.loads(resource_attributes(PAGE["OpenTelemetry Collector"])) == [
        {"key": "k8s.node.name", "value": "n1", "action": "upsert"}
    ]
    assert [topic for topic, _ in own_records(PAGE["Cohabit's own format"])] == ["usage", "nodes", "placements"]


def test_a_sample_becomes_the_adapters_record_if_the_page_keeps_it() -> None:
    page = 'container_x{pod="a",empty=""} 1.5e-07 1772366400123\ngo_threads 7\n'

    records = dict(adapter_records(page, {"node": "n1", "pod": "b"}, kept_metrics(PAGE["Prometheus"]), AT))

    assert {name: json.loads(record) for name, record in records.items()} == {
        "container_x": {
            "labels": {"__name__": "container_x", "exported_pod": "a", "node": "n1", "pod": "b"},
            "name": "container_x",
            "timestamp": "2026-03-01T12:00:00Z",
            "value": "0.00000015",
        }
    }


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (12.5, "12.5"),
        (456.0, "456"),
        (3e10, "30000000000"),
        (1e-9, "0.000000001"),
        (inf, "+Inf"),
        (-inf, "-Inf"),
        (nan, "NaN"),
    ],
)
def test_numbers_are_written_without_exponent(value: float, text: str) -> None:
    assert go_float(value) == text


def test_a_page_gets_the_labels_of_its_target_and_keeps_odd_characters() -> None:
    assert text_page('# HELP a b\na{x="\x1c"} 1\nb 2\n', {"node": "n1"}).decode() == (
        '# HELP a b\na{node="n1",x="\x1c"} 1\nb{node="n1"} 2\n\n'
    )
    assert go_pages('x := `a{b="c"} 1` + `d 2`', "a") == ['a{b="c"} 1']


def test_a_dead_letter_a_missing_column_a_wrong_unit_and_a_wrong_node_are_complaints() -> None:
    golden = Golden("m", "f", r"nanos: (\d+)", "cpu_cores", NANO)
    source = Source("s", "m", (golden,))
    right = Landed(1, {"cpu_cores": [1.5], "memory_bytes": [7.0]}, frozenset({"n1"}), ())

    def wrong(found: Landed) -> list[str]:
        return complaints(source, found, lambda module, file: "nanos: 1500000000")

    assert wrong(right) == []
    assert wrong(replace(right, dead_letters=("undecodable: ?",))) == ["dead letter: undecodable: ?"]
    assert wrong(replace(right, values={"cpu_cores": [1.5]})) == ["no value of memory_bytes"]
    assert wrong(replace(right, values={**right.values, "cpu_cores": [1500.0]})) == [
        "cpu_cores of f is 1.5; landed are [1500.0]"
    ]
    assert wrong(replace(right, nodes=frozenset({"10.0.0.8"}))) == ["of nodes 10.0.0.8, not n1"]


def test_every_module_is_pinned_and_every_source_is_golden_or_says_what_it_is_rebuilt_from() -> None:
    modules = pinned(SUMS.read_text())

    assert all(checksum.startswith("h1:") for _, checksum in modules.values())
    assert {source.module for source in SOURCES} - {""} <= modules.keys()
    assert all(source.module or source.rebuilt for source in SOURCES)
    assert COLLECTOR_PART in (COLLECTOR / "go.mod").read_text()
    assert f"{COLLECTOR_PART} v" in (COLLECTOR / "go.sum").read_text()
