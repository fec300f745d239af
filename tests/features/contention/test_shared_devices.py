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


def test_of_memory_copies_are_divided_and_what_each_pod_holds_itself_stays() -> None:
    copies = used(*virtual("DCGM_FI_DEV_FB_USED", 300.0), column="gpu_memory_bytes")
    own = [of_pod("DCGM_FI_DEV_FB_USED", 100.0 * i, f"p{i}", vgpu=str(i)) for i in range(3)]

    assert set(copies.values()) == {100.0 * 2**20}
    assert list(used(*own, column="gpu_memory_bytes").values()) == [0.0, 100.0 * 2**20, 200.0 * 2**20]


def test_pods_on_devices_of_their_own_keep_what_they_use_though_it_is_the_same() -> None:
    found = used(*(of_pod(ENGINE, 0.9, f"p{i}", gpu=str(i)) for i in range(3)))

    assert set(found.values()) == {0.9}


def test_a_device_that_no_pod_has_is_counted_and_no_error() -> None:
    result = decoded("prom-text", dcgm(ENGINE, 0.2).encode())

    assert (result.rows.num_rows, result.rejects.num_rows) == (0, 0)
    assert dict(result.unknown_fields) == {f"{ENGINE} of no pod": 1}
