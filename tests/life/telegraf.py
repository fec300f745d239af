"""What Telegraf's kubernetes input sends through outputs.kafka with data_format json.

Measurements kubernetes_node and kubernetes_pod_container, their tags and fields are those of influxdata/telegraf v1.36
plugins/inputs/kubernetes/kubernetes.go: a pod is known by namespace and name alone. One object a message, keys in order
(plugins/serializers/json/json.go); json_timestamp_units is 1ms. The agent rounds collection to its interval.
"""

import json

import numpy as np

from tests.life.kubelet import Stat, summary
from tests.life.sending import Sent, scrapes, sent
from tests.life.truth import START_S, Floats, Node, Rng, Timeline


def kubernetes(timeline: Timeline, rng: Rng) -> list[Sent]:
    """Records of topic telegraf."""
    times: list[Floats] = []
    values: list[bytes] = []
    for node in timeline.nodes:
        for stat in summary(timeline, node, scrapes(timeline, node, 0.0)):
            if stat.pod is None or stat.container is not None:
                values += _records(stat, node)
                times.append(stat.at)
    return sent(timeline, rng, np.concatenate(times), values)


def _records(stat: Stat, node: Node) -> list[bytes]:
    tags = {"host": node.name, "node_name": node.name}
    name = "kubernetes_node"
    if stat.pod is not None:
        name = "kubernetes_pod_container"
        tags |= {"container_name": stat.container or "", "namespace": stat.pod.namespace, "pod_name": stat.pod.name}
    tail = f'"name":"{name}","tags":{json.dumps(tags, separators=(",", ":"), sort_keys=True)},"timestamp":'
    rows = zip(stat.at.tolist(), stat.cores.tolist(), stat.used.tolist(), stat.memory_bytes, strict=True)
    return [
        (
            f'{{"fields":{{"cpu_usage_core_nanoseconds":{round(used * 1e9)},"cpu_usage_nanocores":{round(cores * 1e9)},'
            f'"memory_rss_bytes":{memory},"memory_usage_bytes":{memory + 4096},"memory_working_set_bytes":{memory}}},'
            f"{tail}{round((START_S + at) * 1000)}}}"
        ).encode()
        for at, cores, used, memory in rows
    ]
