"""GPUs that pods share: what dcgm-exporter sends for each way of sharing, and how much of the GPU that is."""

import pytest

from features.contention.node_state import Facts
from tests.features.contention.test_app_metrics import BEGIN, decoded, usage
from tests.features.rows import nodes, placements

NOBODY = Facts(nodes(), placements())
ENGINE, UTIL = "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_DEV_GPU_UTIL"


def dcgm(name: str, value: float, **labels: str) -> str:
    own = {"gpu": "0", "UUID": "GPU-5e", "device": "nvidia0", "modelName": "A100", "Hostname": "n", **labels}
    text = ",".join(f'{label}="{word}"' for label, word in own.items())
    return f"{name}{{{text}}} {value} {int(BEGIN.timestamp() + 30) * 1000}"


def of_pod(name: str, value: float, pod: str, **labels: str) -> str:
    return dcgm(name, value, namespace="ml", pod=pod, container="main", **labels)


def used(*lines: str, column: str = "gpu_sm_frac") -> dict[str, object]:
    """By pod."""
    return {str(row["container"]): row[column] for row in usage("prom-text", "\n".join(lines).encode(), facts=NOBODY)}


def virtual(name: str = ENGINE, value: float = 0.9) -> list[str]:
    """With --kubernetes-virtual-gpus each pod has a copy of what the device does."""
    return [of_pod(name, value, f"p{i}", vgpu=str(i)) for i in range(3)]


WAYS = {
    "time slicing, MPS": [of_pod(ENGINE, 0.9, "p0")],
    "virtual GPUs": virtual(),
    "virtual GPUs with use by process": [
        *virtual(),
        *(of_pod(UTIL, 10.0 * i, f"p{i}", vgpu=str(i)) for i in range(3)),
        dcgm(UTIL, 90),
    ],
    "virtual GPUs, older cards": virtual(UTIL, 90.0),
    "one pod with SM_ACTIVE, and GR_ENGINE_ACTIVE": [
        of_pod(ENGINE, 0.99, "p0"),
        of_pod("DCGM_FI_PROF_SM_ACTIVE", 0.9, "p0"),
    ],
    "MIG": [of_pod(ENGINE, 0.9, f"p{i}", GPU_I_PROFILE=f"{n}g.10gb", GPU_I_ID=str(i)) for i, n in enumerate((4, 2, 1))],
}


@pytest.mark.parametrize("way", WAYS)
def test_of_one_device_that_is_busy_by_nine_tenths_pods_have_nine_tenths_together(way: str) -> None:
    assert sum(float(str(one)) for one in used(*WAYS[way]).values()) == pytest.approx(0.9)


def test_shares_follow_what_the_pods_own_processes_use_where_that_is_reported() -> None:
    found = used(*WAYS["virtual GPUs with use by process"])

    assert found == {"ml/p0": 0.0, "ml/p1": pytest.approx(0.3), "ml/p2": pytest.approx(0.6)}


@pytest.mark.parametrize("way", WAYS)
def test_only_equal_shares_of_pods_that_report_no_use_of_their_own_are_said_to_be_unknown(way: str) -> None:
    found = usage("prom-text", "\n".join(WAYS[way]).encode(), facts=NOBODY)

    unknown = way in {"virtual GPUs", "virtual GPUs, older cards"}
    assert {bool(row["gpu_share_unknown"]) for row in found} == {unknown}


def test_of_memory_copies_are_divided_and_what_each_pod_holds_itself_stays() -> None:
    copies = used(*virtual("DCGM_FI_DEV_FB_USED", 300.0), column="gpu_memory_bytes")
    own = [of_pod("DCGM_FI_DEV_FB_USED", 100.0 * i, f"p{i}", vgpu=str(i)) for i in range(3)]

    assert set(copies.values()) == {100.0 * 2**20}
    assert list(used(*own, column="gpu_memory_bytes").values()) == [0.0, 100.0 * 2**20, 200.0 * 2**20]


def test_equal_memory_of_processes_is_each_pods_own() -> None:
    """Replicas hold the same, and the exporter counts memory by process where it counts use so."""
    own = [
        *virtual(),
        *(of_pod(UTIL, 10.0 * (1 + i), f"p{i}", vgpu=str(i)) for i in range(3)),
        *virtual("DCGM_FI_DEV_FB_USED", 300.0),
    ]

    assert set(used(*own, column="gpu_memory_bytes").values()) == {300.0 * 2**20}


def test_a_pod_that_alone_has_no_use_by_process_has_none_and_the_others_keep_all() -> None:
    lines = [*virtual(), *(of_pod(UTIL, 30.0 * (2 - i), f"p{i}", vgpu=str(i)) for i in range(2))]

    assert used(*lines) == {"ml/p0": pytest.approx(0.6), "ml/p1": pytest.approx(0.3), "ml/p2": None}


def test_two_containers_of_a_pod_on_one_device_count_once() -> None:
    lines = [dcgm(ENGINE, 0.9, namespace="ml", pod="p0", container=part) for part in "ab"]
    third = of_pod(ENGINE, 0.9, "p1")

    assert used(*lines) == {"ml/p0": pytest.approx(0.9)}
    assert used(*lines, third) == {"ml/p0": pytest.approx(0.6), "ml/p1": pytest.approx(0.3)}


def at_second(text: str, second: int) -> str:
    return f"{text.rpartition(' ')[0]} {(int(BEGIN.timestamp()) + second) * 1000}"


def test_a_pod_that_comes_within_a_minute_shares_the_device_from_then_on() -> None:
    seen = {10: (0.9, 1), 25: (0.9, 1), 40: (0.1, 2), 55: (0.1, 2)}
    lines = [at_second(of_pod(ENGINE, value, f"p{i}"), second) for second, (value, n) in seen.items() for i in range(n)]

    assert used(*lines) == {"ml/p0": pytest.approx((1.8 + 0.1) / 4), "ml/p1": pytest.approx(0.05)}


def test_a_pod_that_leaves_a_device_leaves_no_value_for_the_next_minute() -> None:
    lines = [at_second(of_pod(ENGINE, 0.9, f"p{i}"), second) for second, n in ((30, 3), (90, 2)) for i in range(n)]
    memory = [f'container_memory_working_set_bytes{{namespace="ml",pod="p{i}",node="n"}} 9 0' for i in range(3)]
    lines += [at_second(one, second) for one in memory for second in (30, 90)]

    rows = usage("prom-text", "\n".join(lines).encode(), facts=NOBODY)

    later = max(str(row["ts"]) for row in rows)
    found = {row["container"]: row["gpu_sm_frac"] for row in rows if str(row["ts"]) == later}
    assert found == {"ml/p0": pytest.approx(0.45), "ml/p1": pytest.approx(0.45), "ml/p2": None}


def test_an_a30_has_four_slices() -> None:
    lines = [of_pod(ENGINE, 1.0, f"p{i}", GPU_I_PROFILE="1g.6gb", GPU_I_ID=str(i)) for i in range(4)]

    assert used(*lines) == {f"ml/p{i}": pytest.approx(0.25) for i in range(4)}


def test_a_device_row_without_a_pod_is_not_the_exporters_where_prometheus_names_its_pod() -> None:
    target = {"namespace": "gpu-operator", "pod": "nvidia-dcgm-exporter-x", "container": "exporter"}
    pods = [
        dcgm(name, value, exported_namespace="ml", exported_pod=f"p{i}", exported_container="main", **target)
        for i in range(3)
        for name, value in ((ENGINE, 0.9), (UTIL, 10.0 * i))
    ]

    found = used(*pods, dcgm(UTIL, 90, **target), dcgm("DCGM_FI_DEV_FB_USED", 500, **target))

    assert found == {"ml/p0": 0.0, "ml/p1": pytest.approx(0.3), "ml/p2": pytest.approx(0.6)}


def test_another_device_of_a_node_on_which_hami_divides_one_is_dcgms() -> None:
    lines = [*hami(HAMI, (60,)), of_pod(ENGINE, 0.9, "p0"), of_pod(ENGINE, 0.5, "p1", gpu="1", UUID="GPU-6f")]

    assert of_pods(lines) == {"u0": pytest.approx(0.6), "u1": 0.5}


def test_devices_are_told_apart_whatever_their_nodes_call_themselves() -> None:
    lines = [of_pod(ENGINE, 0.9, f"p{i}", UUID=f"GPU-{i}", Hostname=f"alias-{i}") for i in range(2)]

    assert of_pods(lines) == {"u0": 0.9, "u1": 0.9}


def test_pods_on_devices_of_their_own_keep_what_they_use_though_it_is_the_same() -> None:
    found = used(*(of_pod(ENGINE, 0.9, f"p{i}", gpu=str(i)) for i in range(3)))

    assert set(found.values()) == {0.9}


ON_NODE: list[dict[str, object]] = [
    {"node": "n", "container": f"u{i}", "namespace": "ml", "name": f"p{i}"} for i in range(3)
]
PLACED = Facts(nodes({"node": "n"}), placements(*ON_NODE))
HAMI = ("hami_container_device_utilization_ratio", "hami_vgpu_memory_used_bytes")
HAMI_OLD = ("Device_utilization_desc_of_container", "vGPU_device_memory_usage_in_bytes")


def hami(names: tuple[str, str], busy: tuple[float, ...], device: str = "GPU-5e", **scraped: str) -> list[str]:
    """Of each container its share of the device in percent, and its memory; HAMi names no node."""
    lines, time = [], int(BEGIN.timestamp() + 30) * 1000
    old = "podnamespace podname ctrname vdeviceid deviceuuid"
    now = "namespace pod container vdevice_index device_uuid"
    keys = [f"exported_{key}" if key in scraped else key for key in (now if names == HAMI else old).split()]
    for number, percent in enumerate(busy):
        labels = {**dict(zip(keys, ("ml", f"p{number}", "main", "0", device), strict=True)), "zone": "vGPU", **scraped}
        text = ",".join(f'{key}="{word}"' for key, word in labels.items())
        lines += [f"{name}{{{text}}} {value} {time}" for name, value in zip(names, (percent, 1e9), strict=True)]
    return lines


def of_pods(lines: list[str], column: str = "gpu_sm_frac") -> dict[str, object]:
    found = usage("prom-text", "\n".join(lines).encode(), facts=PLACED)
    return {str(row["container"]): row[column] for row in found if row[column] is not None}


@pytest.mark.parametrize("names", [HAMI, HAMI_OLD])
def test_where_hami_divides_a_device_pods_keep_what_each_does_though_it_is_the_same(names: tuple[str, str]) -> None:
    lines = hami(names, (30, 30, 30), namespace="kube-system", pod="hami-device-plugin-x", container="monitor")

    assert of_pods(lines) == {f"u{i}": pytest.approx(0.3) for i in range(3)}
    assert of_pods(lines, "gpu_memory_bytes") == {f"u{i}": 1e9 for i in range(3)}


def test_hami_by_both_of_its_names_and_dcgm_beside_it_count_once() -> None:
    lines = [*hami(HAMI, (60, 30)), *hami(HAMI_OLD, (60, 30)), of_pod(ENGINE, 0.9, "p0")]

    assert of_pods(lines) == {"u0": pytest.approx(0.6), "u1": pytest.approx(0.3)}


def test_a_pod_that_has_not_used_the_gpu_of_which_hami_knows_has_no_copy_of_it_by_dcgm() -> None:
    lines = [*hami(HAMI, (60, 30)), *virtual(), *virtual("DCGM_FI_DEV_FB_USED", 300.0)]

    assert of_pods(lines) == {"u0": pytest.approx(0.6), "u1": pytest.approx(0.3)}
    assert set(of_pods(lines, "gpu_memory_bytes")) == {"u0", "u1"}


def test_of_what_hami_does_not_measure_dcgms_copies_are_divided_among_all_pods() -> None:
    lines = [*hami(HAMI, (60, 30)), *virtual(), *virtual("DCGM_FI_PROF_DRAM_ACTIVE", 0.9)]

    assert of_pods(lines, "gpu_dram_frac") == {f"u{i}": pytest.approx(0.3) for i in range(3)}


def test_a_containers_devices_are_added_up() -> None:
    assert of_pods([*hami(HAMI, (60,)), *hami(HAMI, (20,), device="GPU-6f")]) == {"u0": pytest.approx(0.8)}


def test_a_device_that_no_pod_has_is_counted_and_no_error() -> None:
    result = decoded("prom-text", dcgm(ENGINE, 0.2).encode())

    assert (result.rows.num_rows, result.rejects.num_rows) == (0, 0)
    assert dict(result.unknown_fields) == {f"{ENGINE} of no pod": 1}
