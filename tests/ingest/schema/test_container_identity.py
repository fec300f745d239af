"""Identity: one id for a container, whichever of its names an exporter or the API server writes."""

import pytest

from ingest.schema.container_identity import PodCgroup, container_id, instance_id, pod_cgroup, uid_of_pod

UID = "44cd44dc-8a63-406f-80d5-c3078b7c8541"
SLICE = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod44cd44dc_8a63_406f_80d5_c3078b7c8541.slice"
HASH = "9aac5b5c8815def09a2ef9e37b89da55"


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (f"/kubepods/burstable/pod{UID}", PodCgroup(UID)),
        (f"/kubepods/burstable/pod{UID}/ab12", PodCgroup(UID, "ab12")),
        (SLICE, PodCgroup(UID)),
        (f"{SLICE}/cri-containerd-ab12.scope", PodCgroup(UID, "ab12")),
        (f"{SLICE}/crio-ab12.scope/container", PodCgroup(UID, "ab12", nested=True)),
        (f"/docker/cd34/kubelet{SLICE}/cri-containerd-ab12.scope", PodCgroup(UID, "ab12")),
        (f"{SLICE}/cri-containerd-ab12.scope/kubepods/pod{UID}/cd34", PodCgroup(UID, "ab12", nested=True)),
        (f"/kubepods/pod{HASH}/ab12", PodCgroup(HASH, "ab12")),
        ("/system.slice/kubelet.service", PodCgroup()),
        ("/", PodCgroup()),
    ],
)
def test_a_cgroups_path_names_the_pod_the_run_and_what_is_nested(path: str, found: PodCgroup) -> None:
    assert pod_cgroup(path) == found


def test_a_static_pods_id_is_the_hash_of_its_manifest_and_its_node() -> None:
    assert uid_of_pod("api-uid", {"kubernetes.io/config.mirror": HASH}) == HASH
    assert uid_of_pod("api-uid", {}) == "api-uid"
    assert (container_id(HASH, "m0"), container_id(UID, "m0")) == (f"{HASH}@m0", UID)


def test_a_run_has_one_id_in_a_path_with_its_runtime_and_bare() -> None:
    assert {instance_id(name) for name in ("docker-ab12.scope", "containerd://ab12", "ab12")} == {"ab12"}
