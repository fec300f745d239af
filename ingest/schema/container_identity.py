"""Identity of a container: the one place where a sample, placement or decision gets the id of its container. Kernel.

A container, as tables call it, is a pod. Its id is the pod's uid. A static pod has two: the API's, which changes
whenever the kubelet makes the mirror pod anew, and the hash of its manifest, by which cgroups and the kubelet call it.
The hash is taken. Two nodes may run one manifest, so the node is part of the id.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

MIRROR = "kubernetes.io/config.mirror"
"""Annotation of a mirror pod: the hash of the static pod's manifest."""
_HASH = re.compile(r"[0-9a-f]{32}")
_POD_CGROUP = re.compile(r"pod([0-9a-f]{8}(?:[-_]?[0-9a-f]{4}){3}[-_]?[0-9a-f]{12})(?:\.slice)?(?=/|$)(.*)")
_RUNTIME_PREFIX = re.compile(r"^[a-z]+(?:-[a-z]+)*-(?=[0-9a-z]+$)")


class PodCgroup(NamedTuple):
    """What the path of a pod's cgroup says.

    Args:
        uid: of the pod, as cgroups write it but with `-`; empty where the path has none.
        instance: runtime id of the container below the pod's own cgroup; empty for the pod's own.
        nested: whether the path goes on below the container's own cgroup.
    """

    uid: str = ""
    instance: str = ""
    nested: bool = False


def container_id(uid: str, node: str) -> str:
    """Id of a pod in every table: its uid; of a static pod `hash@node`."""
    return f"{uid}@{node}" if is_static(uid) else uid


def is_static(uid: str) -> bool:
    """Whether a uid is the hash of a manifest, which has no hyphens, rather than one that the API gave."""
    return _HASH.fullmatch(uid) is not None


def uid_of_pod(uid: str, annotations: Mapping[str, str]) -> str:
    """The uid by which cgroups and the kubelet call a pod: of a mirror pod the hash in its annotation.

    Source: Kubernetes, pkg/kubelet/types/pod_update.go (ConfigMirrorAnnotationKey).
    """
    return annotations.get(MIRROR) or uid


def pod_cgroup(path: str) -> PodCgroup:
    """Read the path of a cgroup.

    Source: cgroup paths of the kubelet's drivers cgroupfs (/kubepods/burstable/pod<uid>/<id>) and systemd
    (/kubepods.slice/kubepods-burstable-pod<uid, with _ for ->.slice/cri-containerd-<id>.scope). A container that runs
    an init system or a container engine has further cgroups below its own.
    """
    found = _POD_CGROUP.search(path)
    if found is None:
        return PodCgroup()
    below = [part for part in found[2].split("/") if part]
    return PodCgroup(found[1].replace("_", "-"), instance_id(below[0]) if below else "", len(below) > 1)


def instance_id(name: str) -> str:
    """Runtime id of one run of a container, without the runtime's name: of `cri-containerd-<id>.scope` the id.

    Exporters write it as the last part of a cgroup's path, as `<runtime>://<id>`, or bare.
    """
    bare = name.rpartition("://")[2].removesuffix(".scope")
    return _RUNTIME_PREFIX.sub("", bare)
