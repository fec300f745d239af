"""A cluster as one may meet it, drawn: nodes of two platforms, apps by name, victims with suspects of all kinds."""

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from advisor.cluster.snapshot import Snapshot
from advisor.diagnosis.coverage import Coverage, Looked, Unseen
from advisor.diagnosis.report_file import DiagnosisReport
from advisor.diagnosis.slowdown_causes import Diagnosis, Suspect, Verdict
from features.schema.catalog import NAMES
from features.training.model_input import PROFILE_COLUMNS
from tests.advisor.clusters import CAPACITY, FACTS, PLATFORMS
from tests.advisor.diagnoses import REASONS, WINDOW_US, WINDOWS

LATENCY_SENSITIVE = ("cart", "checkout", "frontend", "recommend", "search", "session-cache")
BEST_EFFORT = ("log-compact", "ml-train", "report-batch", "video-encode")
APPS = LATENCY_SENSITIVE + BEST_EFFORT
RACK = 40
Floats = NDArray[np.float64]


def town(nodes: int, now_us: int, *, each: int = 14, seed: int = 3) -> Snapshot:
    """A cluster with about so many containers on each node; some nodes are pressed, some are nearly empty."""
    rng = np.random.default_rng(seed)
    counts = rng.poisson(each, nodes)
    total = int(counts.sum())
    platform = rng.choice(2, nodes, p=[0.65, 0.35])
    capacity = np.array([CAPACITY[PLATFORMS[p]] for p in platform]).reshape(nodes, len(NAMES))
    capacity[:, [NAMES.index(name) for name in ("gpu", "pcie", "rdma")]] = np.nan
    app = rng.integers(0, len(APPS), total)
    load = np.repeat(np.repeat(rng.beta(2.0, 2.6, nodes // RACK + 1), RACK)[:nodes], counts)[:, None]
    load = load * np.repeat(rng.uniform(0.6, 1.2, nodes), counts)[:, None]
    share = rng.gamma(2.0, 0.5, (total, len(NAMES))) * load * rng.uniform(0.3, 1.0, len(NAMES)) / each
    use = share * np.repeat(capacity, counts, axis=0)
    return Snapshot(
        version=1,
        as_of_us=now_us,
        cluster="prod-eu",
        nodes=tuple(f"node-{i:05d}" for i in range(nodes)),
        platforms=("epyc-7763", "xeon-8380"),
        apps=APPS,
        containers=tuple(f"{APPS[a]}-{rng.integers(16**6):06x}-{i}" for i, a in enumerate(app)),
        cpusets=(None,) * total,
        node_platform=platform,
        node_capacity=capacity,
        node_facts=np.array([FACTS[PLATFORMS[p]] for p in platform]).reshape(nodes, 4),
        node_seen_us=np.full(nodes, now_us),
        node_known=np.ones(nodes, np.bool_),
        first=np.append(0, np.cumsum(counts)),
        resident_app=app,
        resident_best_effort=app >= len(LATENCY_SENSITIVE),
        resident_use=use,
        profile=np.full((len(APPS), 2, len(PROFILE_COLUMNS)), np.nan),
        racks=tuple(f"r{i // RACK + 1:02d}" for i in range(nodes)),
    )


def sick(of: Snapshot, victims: int, *, seed: int = 4) -> DiagnosisReport:
    """So many of its latency-sensitive containers suffer."""
    rng, at_us = np.random.default_rng(seed), of.as_of_us - 100 * 10**6
    sensitive = np.flatnonzero(~of.resident_best_effort)
    found = [_diagnosis(of, int(row), at_us, rng) for row in rng.choice(sensitive, victims, replace=False)]
    found.sort(key=lambda one: -np.nan_to_num(one.slowdown, nan=1.0))
    each = int(sensitive.size)
    nodes = {name: Looked(20, 19) for name in of.nodes}
    unseen = (Unseen("own_limit", each // 4, each // 10, 2),)
    looked = Coverage(
        Looked(5 * each, 5 * each - each // 4), each, 0, unseen, {of.cluster: Looked(5 * each, 1)}, nodes, {}
    )
    return DiagnosisReport(of.cluster, at_us, at_us + 4 * 10**6, tuple(found), looked)


def _diagnosis(of: Snapshot, row: int, at_us: int, rng: np.random.Generator) -> Diagnosis:
    verdict = tuple(REASONS)[rng.choice(len(REASONS), p=[0.46, 0.08, 0.14, 0.08, 0.2, 0.04])]
    slowdown = math.nan if verdict == "self-inflicted" else 1.26 + float(rng.gamma(1.6, 0.22))
    node = int(np.searchsorted(of.first, row, side="right")) - 1
    began = int(rng.integers(8, 17))
    suspects = _suspects(of, row, node, slowdown, verdict, began, rng)
    shape = np.where(np.arange(WINDOWS) < began, 1.03, np.nan_to_num(slowdown, nan=1.1))
    slowdowns = shape + rng.normal(0, 0.03, WINDOWS)
    slowdowns[rng.integers(0, began)] = np.nan
    return Diagnosis(
        cluster=of.cluster,
        node=of.nodes[node],
        container=of.containers[row],
        app=of.apps[of.resident_app[row]],
        window_end_us=at_us,
        slowdown=slowdown,
        verdict=verdict,
        reason=REASONS[verdict],
        ends_us=tuple(at_us - (WINDOWS - 1 - i) * WINDOW_US for i in range(WINDOWS)),
        slowdowns=tuple(slowdowns.tolist()),
        suspects=suspects,
    )


def _suspects(
    of: Snapshot, row: int, node: int, slowdown: float, verdict: Verdict, began: int, rng: np.random.Generator
) -> tuple[Suspect, ...]:
    """Neighbours, of whom the first came when it became slow."""
    others = [r for r in range(int(of.first[node]), int(of.first[node + 1])) if r != row]
    excess = float(np.nan_to_num(slowdown, nan=1.1)) - 1.0
    shares = (0.74, 0.12, 0.06, 0.03) if verdict == "antagonist" else (0.27, 0.22, 0.15, 0.04)
    found = []
    for i, (other, share) in enumerate(zip(others, shares, strict=False)):
        level = 0.34 * share / shares[0]
        used = np.where(np.arange(WINDOWS) < (began if i == 0 else 0), 0.02, level) + rng.normal(0, 0.012, WINDOWS)
        added, spread = share * excess, 0.05 + 0.12 * excess * rng.random()
        found.append(
            Suspect(
                container=of.containers[other],
                app=of.apps[of.resident_app[other]],
                qos="BE" if of.resident_best_effort[other] else "LS",
                resource=("memory_bandwidth", "llc", "cpu", "disk")[(row + i) % 4],
                added=added,
                low=added - spread,
                high=added + spread,
                surely=0.97 if verdict == "antagonist" and i == 0 else 0.4 / (i + 1),
                through=0.9 * added,
                used=tuple(np.clip(used, 0, 1).tolist()),
            )
        )
    return tuple(found)


def calm(told: DiagnosisReport) -> DiagnosisReport:
    """The same look at the same cluster, in which no victims."""
    return replace(told, diagnoses=())
