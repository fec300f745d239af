"""Telegraf's JSON: fields become samples of the container or node that the tags name."""

import pytest

from ingest.schema.tables import MAX_MESSAGE_BYTES
from tests.ingest.foreign import AT, TS, decoded, dumped, reasons, short, values
from tests.ingest.samples_of import pod_container, telegraf


def test_fields_of_a_docker_container_become_samples_in_our_units() -> None:
    result = decoded("telegraf-json", dumped(telegraf()))

    assert short(result) == [
        ("web", None, "cpu_cores", None, 5.0, "counter"),
        ("web", None, "cpu_throttled_frac", None, 2.0, "counter"),
    ]
    assert result.rows["node"].to_pylist() == ["n1", "n1"]
    assert result.rows["ts"].to_pylist() == [AT, AT]
    assert result.unknown_fields == {"docker_container_cpu.usage_percent": 1}


def test_a_pod_is_known_by_namespace_and_name_and_its_containers_are_parts() -> None:
    result = decoded("telegraf-json", dumped(pod_container()))

    assert short(result) == [
        ("shop/web-0", "web", "cpu_cores", None, 1.5, "gauge"),
        ("shop/web-0", "web", "memory_bytes", None, 7.0, "gauge"),
    ]
    assert set(result.rows["node"].to_pylist()) == {"n1"}


def test_one_message_may_hold_many_metrics() -> None:
    result = decoded("telegraf-json", dumped({"metrics": [pod_container(), 7, telegraf(tags={"cpu": "cpu-total"})]}))

    assert len(short(result)) == 2
    assert reasons(result) == [("1", "undecodable"), ("2", "missing_key")]


def test_disks_are_told_apart_and_their_partitions_passed_over() -> None:
    def disk(name: str) -> bytes:
        fields = {"reads": 3, "writes": 4, "read_time": 1500}
        return dumped(telegraf(name="diskio", tags={"host": "n1", "name": name}, fields=fields))

    result = decoded("telegraf-json", disk("sda"), disk("sda1"), disk("dm-0"))

    assert short(result) == [
        ("/", None, "disk_ios_s", "read/sda", 3.0, "counter"),
        ("/", None, "disk_ios_s", "write/sda", 4.0, "counter"),
        ("/", None, "disk_io_s", "read/sda", 1.5, "counter"),
    ]
    assert result.unknown_fields["diskio.reads with other labels"] == 2


@pytest.mark.parametrize(
    "timestamp", [TS, TS * 10**3, TS * 10**6, TS * 10**9, float(TS), str(TS), "2026-03-01T11:59:55Z"]
)
def test_the_size_of_a_time_tells_its_unit(timestamp: object) -> None:
    assert decoded("telegraf-json", dumped(telegraf(timestamp=timestamp))).rows["ts"].to_pylist() == [AT, AT]


@pytest.mark.parametrize(
    ("timestamp", "reason"),
    [
        (None, "missing_key"),
        (17, "bad_timestamp"),
        ("soon", "bad_timestamp"),
        ([TS], "bad_timestamp"),
        (True, "bad_timestamp"),
        (TS + 306, "future_timestamp"),
    ],
)
def test_a_bad_time_rejects_the_record(timestamp: object, reason: str) -> None:
    result = decoded("telegraf-json", dumped(telegraf(timestamp=timestamp)), dumped(telegraf()))

    assert result.rows["message"].to_pylist() == [1, 1]
    assert reasons(result) == [("0", reason)]


@pytest.mark.parametrize(
    ("value", "reason"),
    [(-1, "negative"), ("5", "wrong_type"), (True, "wrong_type"), ([5], "wrong_type"), (float("inf"), "wrong_type")],
)
def test_a_bad_value_rejects_that_value_only(value: object, reason: str) -> None:
    fields = {"usage_total": value, "throttling_throttled_time": 2_000_000_000}

    result = decoded("telegraf-json", dumped(telegraf(fields=fields)))

    assert values(result) == {"cpu_cores": None, "cpu_throttled_frac": 2.0}
    assert reasons(result) == [("0.docker_container_cpu.usage_total", reason)]


def test_a_gauge_outside_the_catalogues_range_is_rejected() -> None:
    result = decoded("telegraf-json", dumped(telegraf(name="mem", fields={"used": 1e16})))

    assert values(result) == {"memory_bytes": None}
    assert reasons(result) == [("0.mem.used", "out_of_range")]


@pytest.mark.parametrize(
    "message",
    [None, b"", b"{", b"[]", b"7", b'{"name": "cpu"}', b'{"metrics": []}', dumped(telegraf(fields={})), b"[" * 9000],
)
def test_what_is_no_metric_is_undecodable(message: bytes | None) -> None:
    result = decoded("telegraf-json", message, dumped(telegraf()))

    assert [reason for _, reason in reasons(result)] == ["undecodable"]
    assert result.rows["message"].to_pylist() == [1, 1]


def test_a_message_beyond_the_limit_is_not_read() -> None:
    assert reasons(decoded("telegraf-json", b" " * MAX_MESSAGE_BYTES + dumped(telegraf()))) == [("", "undecodable")]


def test_app_and_team_are_taken_from_labels_where_there_are_any() -> None:
    tags = {"host": "n1", "container_name": "web", "cpu": "cpu-total", "app": "shop", "cohabit.io/team": "red"}

    row = decoded("telegraf-json", dumped(telegraf(tags=tags))).rows.to_pylist()[0]

    assert (row["app"], row["team"], row["qos"]) == ("shop", "red", None)
