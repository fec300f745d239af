"""cAdvisor's kafka driver: one record holds a container's counters; what it did not measure is missing, not zero."""

import pytest

from tests.ingest.foreign import CGROUPFS, UID, decoded, dumped, reasons, values
from tests.ingest.samples_of import cadvisor, psi, stats_of

RECORD = {
    "cpu_cores": 5.0,
    "cpu_throttled_frac": 2.0,
    "run_queue_frac": None,
    "psi_cpu_some_frac": 3.0,
    "psi_cpu_full_frac": 1.0,
    "memory_bytes": 100.0,
    "memory_refault_s file": 4.0,
    "psi_memory_some_frac": 0.0,
    "psi_memory_full_frac": 0.0,
    "psi_io_some_frac": 0.0,
    "psi_io_full_frac": 0.0,
    "net_rx_bytes_s eth0": 70.0,
    "net_tx_bytes_s eth0": 80.0,
    "disk_read_bytes_s /dev/sda": 40.0,
    "disk_write_bytes_s /dev/sda": 50.0,
    "disk_ios_s read//dev/sda": None,
    "disk_ios_s write//dev/sda": None,
    "instructions_s 0": 900.0,
    "instructions_s 1": None,
    "cycles_s 0": 1800.0,
    "memory_bandwidth_bytes_s 0": 64.0,
    "llc_occupancy_bytes 0": 6.0,
    "llc_occupancy_bytes 1": 7.0,
}


def test_a_record_gives_every_counter_in_our_units() -> None:
    result = decoded("cadvisor", dumped(cadvisor()))

    assert values(result) == RECORD
    assert {row["container"] for row in result.rows.to_pylist()} == {UID}
    assert {f"{ts:%T.%f}" for ts in result.rows["ts"].to_pylist()} == {"11:59:55.123456"}
    assert not result.rejects.num_rows
    assert result.unknown_fields == {
        "memory.rss": 1,
        "network.rx_bytes with other labels": 1,
        "network.tx_bytes with other labels": 1,
    }


def test_network_is_the_pods_and_the_rest_the_containers() -> None:
    rows = decoded("cadvisor", dumped(cadvisor())).rows.to_pylist()

    assert {row["part"] for row in rows if row["metric"].startswith("net_")} == {None}
    assert {row["part"] for row in rows if not row["metric"].startswith("net_")} == {"web"}


def test_pressure_of_nothing_but_zeros_was_not_measured() -> None:
    stats = stats_of()
    quiet = {name: {**stats[name], "psi": psi(0, 0)} for name in ("cpu", "memory", "diskio")}  # type: ignore[dict-item]

    found = values(decoded("cadvisor", dumped(cadvisor(**quiet))))

    assert {value for name, value in found.items() if name.startswith("psi_")} == {None}


def test_the_scheduler_is_believed_once_it_ran_something() -> None:
    cpu = {"schedstat": {"run_time": 9, "runqueue_time": 3_000_000_000}}

    assert values(decoded("cadvisor", dumped(cadvisor(cpu=cpu))))["run_queue_frac"] == 3.0


@pytest.mark.parametrize(
    ("name", "labels", "container", "part"),
    [
        ("/", {}, "/", None),
        (CGROUPFS, {}, UID, None),
        ("k8s_web_web-0_shop", cadvisor()["container_labels"], UID, "web"),
        ("registry", {}, "registry", None),
    ],
)
def test_whose_a_record_is(name: str, labels: object, container: str, part: str | None) -> None:
    result = decoded("cadvisor", dumped({**cadvisor(), "container_Name": name, "container_labels": labels}))

    rows = [row for row in result.rows.to_pylist() if row["metric"] == "cpu_cores"]
    assert [(row["container"], row["part"]) for row in rows] == [(container, part)]


@pytest.mark.parametrize("name", ["/system.slice/kubelet.service", "/kubepods", "/kubepods/burstable"])
def test_slices_of_the_system_are_nobodys(name: str) -> None:
    result = decoded("cadvisor", dumped({**cadvisor(), "container_Name": name, "container_labels": {}}))

    assert not result.rows.num_rows
    assert result.unknown_fields["cpu.usage.total of no pod"] == 1


def test_a_sandbox_gives_its_network_alone() -> None:
    labels = {"io.cri-containerd.kind": "sandbox", "io.kubernetes.pod.uid": UID}

    result = decoded("cadvisor", dumped({**cadvisor(), "container_Name": "sandbox", "container_labels": labels}))

    assert values(result) == {"net_rx_bytes_s eth0": 70.0, "net_tx_bytes_s eth0": 80.0}


def test_older_versions_tell_one_interface() -> None:
    network = {"name": "eth0", "rx_bytes": 7, "tx_bytes": 8, "tcp": {}}

    found = values(decoded("cadvisor", dumped(cadvisor(network=network))))

    assert (found["net_rx_bytes_s eth0"], found["net_tx_bytes_s eth0"]) == (7.0, 8.0)


def test_a_record_without_machine_is_rejected_once() -> None:
    assert reasons(decoded("cadvisor", dumped({**cadvisor(), "machine_name": ""}))) == [("0", "missing_key")]


def test_a_negative_counter_is_rejected_alone() -> None:
    stats = {"cpu": {"usage": {"total": -1}}, "memory": {"working_set": 5}}

    result = decoded(
        "cadvisor", dumped({**cadvisor(), "container_stats": {**stats, "timestamp": "2026-03-01T11:59:55Z"}})
    )

    assert values(result) == {"cpu_cores": None, "memory_bytes": 5.0}
    assert reasons(result) == [("0.cpu.usage.total", "negative")]


@pytest.mark.parametrize("message", [None, b"", b"{}", b"[]", b'{"container_stats": 7}', dumped({"timestamp": "x"})])
def test_what_is_no_record_is_undecodable(message: bytes | None) -> None:
    assert reasons(decoded("cadvisor", message)) == [("", "undecodable")]


def test_an_empty_record_is_counted() -> None:
    assert decoded("cadvisor", b'{"container_stats": {}}').unknown_fields == {"container_stats without values": 1}
