"""prometheus-kafka-adapter: one sample a message, its value a text."""

import pytest

from tests.ingest.foreign import AT, CGROUPFS, UID, decoded, dumped, reasons, short
from tests.ingest.samples_of import adapter, labels_of_adapter

LABELS = labels_of_adapter()


def test_a_sample_is_its_pods_and_its_value_is_read_from_text() -> None:
    result = decoded("prom-adapter", dumped(adapter()))

    assert short(result) == [(UID, "web", "cpu_cores", None, 12.5, "counter")]
    assert result.rows["ts"].to_pylist() == [AT]
    assert result.rows["node"].to_pylist() == ["n1"]


def test_nan_is_a_row_without_a_value() -> None:
    result = decoded("prom-adapter", dumped(adapter(value="NaN")))

    assert short(result)[0][4] is None
    assert not result.rejects.num_rows


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("+Inf", "wrong_type"),
        ("-Inf", "wrong_type"),
        ("-1", "negative"),
        ("x", "wrong_type"),
        ("1_0", "wrong_type"),
        (True, "wrong_type"),
    ],
)
def test_a_bad_value_is_rejected_and_its_row_kept_without_it(value: object, reason: str) -> None:
    result = decoded("prom-adapter", dumped(adapter(value=value)))

    assert short(result)[0][4] is None
    assert reasons(result) == [("0.container_cpu_usage_seconds_total", reason)]


def test_a_pod_without_uid_is_known_by_namespace_and_name() -> None:
    result = decoded("prom-adapter", dumped(adapter(labels={k: v for k, v in LABELS.items() if k != "id"})))

    assert short(result)[0][:2] == ("shop/web-0", "web")


def test_labels_of_the_metric_come_before_those_of_the_scraped_pod() -> None:
    labels = {
        "node": "n1",
        "pod": "exporter",
        "namespace": "sys",
        "exported_pod": "web-0",
        "exported_namespace": "shop",
    }

    result = decoded(
        "prom-adapter", dumped(adapter(name="DCGM_FI_DEV_FB_USED", labels={**labels, "gpu": "0"}, value="2"))
    )

    assert short(result) == [("shop/web-0", None, "gpu_memory_bytes", "0", 2097152.0, "gauge")]


def test_the_node_is_the_instance_without_its_port_where_nothing_says_more() -> None:
    result = decoded(
        "prom-adapter", dumped(adapter(name="node_pressure_io_waiting_seconds_total", labels={"instance": "n7:9100"}))
    )

    assert result.rows.select(["node", "container", "metric"]).to_pylist() == [
        {"node": "n7", "container": "/", "metric": "psi_io_some_frac"}
    ]


def test_idle_cores_are_not_use_of_the_node() -> None:
    def cpu(mode: str) -> bytes:
        return dumped(
            adapter(name="node_cpu_seconds_total", labels={"instance": "n1", "cpu": "0", "mode": mode}, value="3")
        )

    result = decoded("prom-adapter", cpu("user"), cpu("idle"), cpu("iowait"), cpu("system"))

    assert short(result) == [
        ("/", None, "cpu_cores", "0/user", 3.0, "counter"),
        ("/", None, "cpu_cores", "0/system", 3.0, "counter"),
    ]
    assert result.unknown_fields == {"node_cpu_seconds_total with other labels": 2}


def test_koordlets_cycles_and_instructions_are_ingredients_and_its_pressure_a_share() -> None:
    pod = {"node": "n1", "pod_uid": UID, "pod_name": "web-0", "pod_namespace": "shop", "container_name": "web"}
    psi = {**pod, "psi_resource_type": "mem", "psi_degree": "full"}

    result = decoded(
        "prom-adapter",
        dumped(adapter(name="koordlet_container_cpi", labels={**pod, "cpi_field": "cycles"}, value="100")),
        dumped(adapter(name="koordlet_container_cpi", labels={**pod, "cpi_field": "instructions"}, value="50")),
        dumped(adapter(name="koordlet_container_psi", labels={**psi, "psi_precision": "avg10"}, value="25")),
        dumped(adapter(name="koordlet_container_psi", labels={**psi, "psi_precision": "avg60"}, value="50")),
    )

    assert [row[2:] for row in short(result)] == [
        ("cycles_s", None, 10.0, "gauge"),
        ("instructions_s", None, 5.0, "gauge"),
        ("psi_memory_full_frac", None, 0.25, "gauge"),
    ]


@pytest.mark.parametrize(
    "labels",
    [{"pod": "web-0", "namespace": "shop", "container": "web"}, {"node": "n1", "container": ""}, {}],
)
def test_a_sample_without_node_or_container_is_rejected(labels: dict[str, str]) -> None:
    assert reasons(decoded("prom-adapter", dumped(adapter(labels=labels)))) == [("0", "missing_key")]


@pytest.mark.parametrize("label", ["Hostname", "hostname"])
def test_a_gpu_is_of_the_node_that_any_version_of_its_exporter_names(label: str) -> None:
    labels = {label: "n1", "instance": "10.0.0.8:9400", "gpu": "0", "pod": "web-0", "namespace": "shop"}

    result = decoded("prom-adapter", dumped(adapter(name="DCGM_FI_PROF_SM_ACTIVE", labels=labels, value="0.5")))

    assert result.rows["node"].to_pylist() == ["n1"]


@pytest.mark.parametrize(
    ("name", "metric", "kind", "exporter"),
    [
        ("node_cpu_usage_seconds_total", "cpu_cores", "counter", "kubelet resource"),
        ("node_memory_working_set_bytes", "memory_bytes", "gauge", "kubelet resource"),
        ("koordlet_node_used_cpu_cores", "cpu_cores", "gauge", "koordlet"),
        ("koordlet_node_used_memory_bytes", "memory_bytes", "gauge", "koordlet"),
    ],
)
def test_the_kubelets_and_koordlets_use_of_the_node_lands(name: str, metric: str, kind: str, exporter: str) -> None:
    result = decoded("prom-adapter", dumped(adapter(name=name, labels={"node": "n1"}, value="7")))

    assert short(result) == [("/", None, metric, None, 7.0, kind)]
    assert result.rows["exporter"].to_pylist() == [exporter]


def test_a_gpu_that_nobody_has_is_nobodys() -> None:
    labels = {"Hostname": "n1", "gpu": "0", "pod": "", "namespace": "", "container": ""}

    result = decoded("prom-adapter", dumped(adapter(name="DCGM_FI_PROF_SM_ACTIVE", labels=labels, value="0")))

    assert (short(result), reasons(result)) == ([], [])
    assert result.unknown_fields == {"DCGM_FI_PROF_SM_ACTIVE of no pod": 1}


def test_a_pods_pause_container_is_nobodys_but_its_network_is_the_pods() -> None:
    pause = {**LABELS, "container": "POD", "interface": "eth0", "id": f"{CGROUPFS}/pause"}

    result = decoded(
        "prom-adapter",
        dumped(adapter(labels=pause)),
        dumped(adapter(name="container_network_receive_bytes_total", labels=pause, value="70")),
    )

    assert short(result) == [(UID, None, "net_rx_bytes_s", "eth0", 70.0, "counter")]
    assert result.unknown_fields == {"container_cpu_usage_seconds_total of pause": 1}


@pytest.mark.parametrize("message", [None, b"", b"{}", b"[]", b'{"labels": 7, "value": "1"}', b'{"labels": {}}'])
def test_what_is_no_sample_is_undecodable(message: bytes | None) -> None:
    assert reasons(decoded("prom-adapter", message)) == [("", "undecodable")]


def test_a_label_that_is_no_text_is_written_out() -> None:
    result = decoded("prom-adapter", dumped(adapter(labels={**LABELS, "node": 7, "pod": None, "x": [1]})))

    assert result.rows["node"].to_pylist() == ["7"]
