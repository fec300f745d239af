"""Samples of pods of a simulated cluster, as messages: counters that restart, gauges with gaps, doubled and late."""

from datetime import timedelta

import numpy as np
import orjson

from ingest.kafka_io.stream_files import Message
from ingest.simulator.simulate import Plan

COUNTERS = {"cpu_cores": 2.0, "net_rx_bytes_s": 1e6, "instructions_s": 1e9, "cycles_s": 1.5e9}
PODS = 6


def placement_messages(plan: Plan) -> list[Message]:
    """Tell the uids of those pods, that samples call by name."""
    told = [
        {
            "cluster": plan.cluster,
            "node": f"node-{number % plan.nodes:04d}",
            "container": f"uid-{number}",
            "namespace": "team",
            "name": f"pod-{number}",
            "ts": plan.start.timestamp(),
            "event": "add",
            "app": "sampled",
        }
        for number in range(PODS)
    ]
    return [Message(round(plan.start.timestamp() * 1e3), b"k", orjson.dumps(record)) for record in told]


def sample_messages(plan: Plan, rng: np.random.Generator) -> list[Message]:
    """An hour of two containers in each of some pods, scraped every 25 s or so, in the order of arrival."""
    messages = []
    for number in range(PODS):
        for part in ("app", "log"):
            total = dict.fromkeys(COUNTERS, 0.0)
            second = float(rng.uniform(1, 25))
            while second < plan.hours * 3600:
                total = {
                    m: 0.0 if rng.random() < 0.01 else v + 25 * COUNTERS[m] * rng.random() for m, v in total.items()
                }
                values: dict[str, float | None] = {**total, "memory_bytes": 1e9 * rng.random()}
                for metric, value in values.items():
                    record = {
                        "cluster": plan.cluster,
                        "node": f"node-{number % plan.nodes:04d}",
                        "container": f"team/pod-{number}",
                        "part": part,
                        "app": "sampled",
                        "metric": metric,
                        "kind": "counter" if metric in COUNTERS else "gauge",
                        "ts": (plan.start + timedelta(seconds=second)).timestamp(),
                        "value": None if rng.random() < 0.02 else value,
                    }
                    late_s = rng.choice([1.0, 60.0, 120.0], p=[0.9, 0.05, 0.05])
                    arrived = plan.start + timedelta(seconds=second + late_s)
                    copies = 2 if rng.random() < 0.05 else 1
                    messages += [Message(round(arrived.timestamp() * 1e3), b"k", orjson.dumps(record))] * copies
                second += float(rng.normal(25, 3))
    return sorted(messages, key=lambda m: m.arrived_ms)
