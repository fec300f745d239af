"""Simulated records as the messages a real producer would send, with a real producer's faults. Kernel."""

from dataclasses import dataclass

import numpy as np
import orjson

from ingest.schema.topics import NODE_USAGE, NODES, PLACEMENTS, USAGE, Topic, message_key
from ingest.simulator.law import PLATFORMS, TEAMS, Floats, Ints
from ingest.simulator.simulated_cluster import Records, State


@dataclass(frozen=True, slots=True)
class Message:
    """One message as it lies in a topic."""

    topic: str
    key: bytes
    value: bytes
    arrived_ms: int


@dataclass(frozen=True, slots=True)
class Faults:
    """How often what goes wrong, each a share of messages (missing: of nodes in a minute).

    Args:
        missing: perf counters not read on a node.
        late: arrives 20 to 200 s after its time.
        duplicate: sent twice.
        bad: malformed in one of the ways a real topic shows.
        skew_s: clock error of every eleventh node.
    """

    missing: float = 0.03
    late: float = 0.01
    duplicate: float = 0.005
    bad: float = 0.0005
    skew_s: float = 4.0


NO_FAULTS = Faults(0.0, 0.0, 0.0, 0.0, 0.0)
BEAT_S = 300
"""So often each node says that it is there."""
PERF = ("cpi", "llc_mpki", "llc_occupancy_bytes", "memory_bandwidth_bytes_s")
BAD = (b"not json", b"[]", b'{"cpi": 1.0}', b'{"ts": "yesterday"}', b"\xff\xfe\x00")


def node_name(node: int) -> str:
    """Name of a simulated node."""
    return f"node-{node:04d}"


def app_name(app: int) -> str:
    """Name of a simulated app."""
    return f"app-{app:03d}"


def team_name(app: int) -> str:
    """Team of a simulated app."""
    return f"team-{app % TEAMS}"


def describe_nodes(state: State, cluster: str) -> list[Message]:
    """One message of topic `nodes` for each node."""
    messages = []
    for node, platform in enumerate(state.platform):
        facts = PLATFORMS[platform]
        record: dict[str, object] = {
            "cluster": cluster,
            "node": node_name(node),
            "ts": round(state.time_s),
            "platform": facts.name,
        }
        record |= {name: getattr(facts, name) for name in facts.__slots__ if name != "name"}
        record |= {"zone": f"z{node % 3}", "rack": f"r{node // 8}", "smt": 2, "numa_nodes": 1}
        messages.append(_message(NODES, record, state.time_s))
    return messages


def describe_beats(state: State, interval_s: float, cluster: str, waited: Floats | None = None) -> list[Message]:
    """One message of topic `node_usage` for each node where one is due: it is there, though nothing may run on it.

    Where it is known what (nodes,) tasks waited for CPU, s/s, each interval has one.
    """
    if waited is None and state.time_s % BEAT_S >= interval_s:
        return []
    records: list[dict[str, object]] = [
        {"cluster": cluster, "node": node_name(n), "ts": round(state.time_s), "interval_s": BEAT_S}
        for n in range(len(state.platform))
    ]
    if waited is not None:
        seconds = [round(one, 6) for one in waited.tolist()]
        records = [
            {**record, "interval_s": interval_s, "run_delay_frac": one}
            for record, one in zip(records, seconds, strict=True)
        ]
    return [_message(NODE_USAGE, record, state.time_s + 0.5) for record in records]


def describe_events(
    records: Records,
    interval_s: float,
    best_effort: tuple[bool, ...],
    cluster: str,
    limit_cores: Floats | None = None,
) -> list[Message]:
    """Messages of topic `placements` for the interval's events, stamped with its start.

    `limit_cores` are (apps,) CPU limits; NaN for none.
    """
    start_s = records.time_s - interval_s
    messages = []
    for event in records.events:
        c = event.container
        record: dict[str, object] = {
            "cluster": cluster,
            "container": c.uid,
            "ts": round(start_s * 1000),
            "event": event.kind,
            "node": node_name(c.node),
            "app": app_name(c.app),
            "team": team_name(c.app),
            "qos": "BE" if best_effort[c.app] else "LS",
            "owner": f"Deployment/{app_name(c.app)}",
            "image_version": str(c.version),
        }
        if limit_cores is not None and not np.isnan(limit_cores[c.app]):
            record["cpu_limit_cores"] = round(float(limit_cores[c.app]), 3)
        messages.append(_message(PLACEMENTS, record, start_s + 0.2))
    return messages


def describe_usage(
    records: Records,
    interval_s: float,
    best_effort: tuple[bool, ...],
    *,
    cluster: str,
    faults: Faults,
    seed: int,
    rng: np.random.Generator,
) -> list[Message]:
    """Messages of topic `usage`, one a container, with faults; not sorted by arrival.

    `seed` decides which counters fail, since that holds for a whole minute of a node, over several intervals.
    """
    n = len(records.containers)
    columns = {name: np.round(values, 6).tolist() for name, values in records.signals.items()}
    node = np.array([c.node for c in records.containers], np.int64)
    unread = _unread(node, records.time_s, faults, seed)
    skew_s = np.where(node % 11 == 5, faults.skew_s, 0.0)
    delay_s = np.where(rng.random(n) < faults.late, rng.uniform(20.0, 200.0, n), rng.uniform(0.5, 3.0, n))
    bad = rng.random(n) < faults.bad
    messages = []
    for i, c in enumerate(records.containers):
        dropped = PERF if unread[i] else ()
        signals = {k: v[i] for k, v in columns.items() if v[i] == v[i] and k not in dropped}
        record: dict[str, object] = {
            "cluster": cluster,
            "node": node_name(c.node),
            "container": c.uid,
            "ts": round((records.time_s + skew_s[i]) * 1000),
            "interval_s": interval_s,
            "app": app_name(c.app),
            "team": team_name(c.app),
            "qos": "BE" if best_effort[c.app] else "LS",
            **signals,
        }
        message = _message(USAGE, record, records.time_s + delay_s[i])
        messages.append(_spoilt(message, i) if bad[i] else message)
    repeated = np.flatnonzero(rng.random(n) < faults.duplicate)
    return messages + [messages[i] for i in repeated]


def _unread(node: Ints, time_s: float, faults: Faults, seed: int) -> list[bool]:
    """Whether each record's node could not read its perf counters in this minute."""
    minute = int(time_s // 60)
    failing = {n: np.random.default_rng([seed, n, minute]).random() < faults.missing for n in np.unique(node).tolist()}
    return [bool(failing[n]) for n in node.tolist()]


def _spoilt(message: Message, kind: int) -> Message:
    return Message(message.topic, message.key, BAD[kind % len(BAD)], message.arrived_ms)


def _message(topic: Topic, record: dict[str, object], arrived_s: float) -> Message:
    return Message(topic.name, message_key(topic, record), orjson.dumps(record), round(arrived_s * 1000))
