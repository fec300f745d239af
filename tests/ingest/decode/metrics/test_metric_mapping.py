"""Mapping: the shipped tables hold together, and a file of one's own adds to them or says what is wrong, and where."""

from pathlib import Path

import pytest

from ingest.decode.metrics.known_metrics import EXPORTERS
from ingest.decode.metrics.mapping_file import read_mapping
from ingest.decode.metrics.metric_mapping import COUNTER, LEVELS, TARGETS
from ingest.schema.errors import IngestError
from ingest.schema.tables import KIND_VALUES
from tests.ingest.foreign import decoded, dumped, short
from tests.ingest.samples_of import telegraf

METRICS = [metric for same in EXPORTERS.metrics.values() for metric in same]


def read(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return path


def test_every_shipped_metric_has_a_target_a_kind_and_a_level_that_exist() -> None:
    for metric in METRICS:
        assert metric.target in TARGETS
        assert metric.kind in KIND_VALUES
        assert metric.of in LEVELS
        assert metric.scale > 0


def test_only_counters_become_rates_and_only_amounts_are_gauges() -> None:
    rates = {name for name, column in TARGETS.items() if column.unit in {"bytes/s", "1/s", "s/s", "cores"}}

    assert {metric.target for metric in METRICS if metric.kind == COUNTER} <= rates


def test_metrics_of_one_name_differ_in_their_conditions() -> None:
    for same in EXPORTERS.metrics.values():
        conditions = [repr((metric.target, metric.where, metric.unless)) for metric in same]
        assert len(set(conditions)) == len(conditions)


def test_a_file_adds_metrics_and_labels_and_replaces_those_of_the_same_name(tmp_path: Path) -> None:
    path = read(
        tmp_path,
        """
        [[metric]]
        name = "my_cpu.millicores"
        target = "cpu_cores"
        scale = 0.001
        where = { state = "us*", kind = ["a", "b"] }
        unless = { cpu = "total" }
        series = ["state"]
        unknown = [-1, 101]

        [[metric]]  # instead of the shipped one
        name = "docker_container_mem.usage"
        target = "llc_occupancy_bytes"

        [labels]
        node = ["my_node"]
        """,
    )

    mapping = read_mapping(path, EXPORTERS)
    tags = {"my_node": "n9", "host": "n1", "container_name": "web", "state": "used", "kind": "b"}
    messages = [
        dumped(telegraf(name="my_cpu", tags=tags, fields={"millicores": value})) for value in (1500, -1, 101, -2)
    ]
    result = decoded("telegraf-json", *messages, mapping=mapping)

    assert short(result) == [("web", None, "cpu_cores", "used", value, "gauge") for value in (1.5, None, None, None)]
    assert result.rows["node"].to_pylist() == ["n9"] * 4
    assert result.rejects["reason"].to_pylist() == ["negative"]
    assert [metric.target for metric in mapping.metrics["docker_container_mem.usage"]] == ["llc_occupancy_bytes"]
    assert len(mapping.metrics) == len(EXPORTERS.metrics) + 1


@pytest.mark.parametrize("label", ["code", "name", "replica"])
def test_a_label_that_distinguishes_series_names_neither_a_run_nor_a_collector(tmp_path: Path, label: str) -> None:
    path = read(
        tmp_path, f"[[metric]]\nname = 'hits_total.value'\ntarget = 'qps'\nkind = 'counter'\nseries = ['{label}']"
    )
    tags = {"node_name": "n1", "pod_name": "p", "namespace": "s", "container_name": "web", label: "pay"}

    rows = decoded(
        "telegraf-json",
        dumped(telegraf(name="hits_total", tags=tags, fields={"value": 3.0})),
        mapping=read_mapping(path, EXPORTERS),
    ).rows

    assert rows.select(["series", "instance", "replica"]).to_pylist() == [
        {"series": "pay", "instance": None, "replica": None}
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[[metric]]\nname = x", "it is not TOML; .*line 2"),
        ("[[metrics]]\nname = 'x'", "'metrics' is unknown; there are"),
        ("metric = 3", "'metric' is no list"),
        ("metric = [3]", "metric 1 is no table"),
        ("\n[[metric]]\ntarget = 'cpi'", "metric 1, line 2: name is missing"),
        ("[[metric]]\nname = 'x'", "metric 1, line 1, 'x': target is missing"),
        ("[[metric]]\nname='a'\ntarget='cpi'\n[[metric]]\nname='x'\ntarget='cpu'", "2, line 4, 'x': target = 'cpu'"),
        ("[[metric]]\nname = 'x'\ntarget = 'cpi'\nkind = 'rate'", "kind = 'rate'; it must be one of gauge, counter"),
        ("[[metric]]\nname = 'x'\ntarget = 'cpi'\nscale = 0", "scale = 0; it must be a number other than 0"),
        ("[[metric]]\nname = 'x'\ntarget = 'cpi'\nscale = nan", "scale = nan"),
        ("[[metric]]\nname = 'x'\ntarget = 'cpi'\nof = 'host'", "one of container, pod, node"),
        ("[[metric]]\nname = 'x'\ntarget = 'cpi'\nwhere = ['a']", "where = .*label = pattern"),
        ("[[metric]]\nname = 'x'\ntarget = 'cpi'\nunknown = -1", "unknown = -1; it must be a list of numbers"),
        ("[[metric]]\nname = 'x'\ntarget = 'cpi'\nunit = 's'", "'unit' is unknown; there are name, target, kind"),
        (f"[[metric]]\nname = 'x'\ntarget = 'cpi'\nscale = {10**400}", "scale = 1000"),
        (f"[[metric]]\nname = 'x'\ntarget = 'cpi'\nscale = {'1' * 5000}", "it is not TOML"),
        (f"labels = {'[' * 5000}", "it is not TOML"),
        ("[labels]\nhost = ['x']", "labels: host = .*cluster, node, namespace"),
        ("[labels]\nnode = 3", "labels: node = 3"),
        ("labels = 3", "'labels' is no table"),
        ("[[histogram]]\nunit = 's'", "histogram 1, line 1: name is missing; a histogram needs name"),
        ("[[histogram]]\nname = 'x'\nunit = 'min'", "unit = 'min'; it must be one of s, ms, us"),
        ("[[histogram]]\nname = 'x'\ntarget = 'qps'", "'target' is unknown; there are unit, answered"),
        ("[[histogram]]\nname = 'x'\ncounts = 1", "counts = 1; it must be true or false"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_used_says_which_entry_and_what_is_wanted(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(IngestError, match=told):
        read_mapping(read(tmp_path, text), EXPORTERS)


def test_a_histogram_of_ones_own_gives_requests_and_response_times_by_each_spelling(tmp_path: Path) -> None:
    text = "[[histogram]]\nname = 'my.duration'\nunit = 'ms'\nwhere = { 'my.side' = 'server' }"
    mapping = read_mapping(read(tmp_path, text), EXPORTERS)

    by_dots = mapping.fitting("my.duration_sum", {"my.side": "server"})
    by_unit = mapping.fitting("my.duration_sum", {"my.side": "server", "metric.unit": "s"})
    prometheus = mapping.fitting("my_duration_seconds_count", {"my_side": "server"})
    in_utf8 = mapping.fitting("my.duration_seconds_count", {"my.side": "server"})

    assert [(one.target, one.scale) for one in (*by_dots, *by_unit)] == [("rt_s", 0.001), ("rt_s", 1.0)]
    assert [one.target for one in prometheus] == [one.target for one in in_utf8] == ["qps", "timed_s"]
    assert mapping.fitting("my.duration_sum", {"my.side": "client"}) == ()
