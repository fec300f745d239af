"""Diagnosis measured: who is blamed in our own measured windows that have several antagonists.

The truth is what antagonists do alone: a window counts where exactly one of its kinds, on the victim's core or beside
it, slows victims down to LOUD times in the median of the windows in which it is the only one, and all others hardly do.
What is asked is only whose doing it is: every configuration was measured for five seconds, so that nobody suffers in
three windows of five.
"""

import csv
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np

from advisor.diagnosis.analyse import Evidence, Scene, attributed, scene_of, sensitivities
from advisor.diagnosis.slowdown_causes import Circumstances, verdict_of
from advisor.diagnosis.slowdown_outliers import ENOUGH
from advisor.scoring.score_scale import LIMIT_SLOWDOWN
from benchmarks.antagonists import landed
from features.columnar.arrow_columns import micros
from features.contention.node_state import Facts
from features.schema.tables import TABLES
from ingest.lake.tables import Lake

FOLDER = Path(__file__).parent.parent / "data_samples" / "measured"
LOUD, HARMLESS = 1.5, 1.1
Row = Mapping[str, str]
Kind = tuple[str, bool]
"""An antagonist's name, and whether it is on the victim's core."""


def measured() -> dict[str, float]:
    """How many victims there are whose antagonist is known, and how often it is named."""
    with TemporaryDirectory() as folder:
        lake = Lake.open(Path(folder), TABLES)
        landed(FOLDER, lake)
        facts = Facts(lake.read("nodes"), lake.read("placements"))
        evidence = Evidence(lake.read("node_state"), lake.read("labels"), lake.read("profiles"), facts)
    return judged(evidence, _cases())


def judged(evidence: Evidence, cases: Sequence[tuple[Row, str]]) -> dict[str, float]:
    """Counts of what is said of victims and who it is of each."""
    scene, row = _scene(evidence), dict[str, int]()
    for number, name in enumerate(scene.rows["container"].to_pylist()):
        row[name] = number
    count = Counter[str]()
    for victim, antagonist in cases:
        slow = float(victim["slow_mean"])
        count["measured_windows"] += 1
        if slow < LIMIT_SLOWDOWN:
            continue
        one = row[f"{victim['window']}-victim{victim['idx']}"]
        scene.windows.slowdown[one] = slow
        found, suspects = attributed(scene, np.array([one]))
        verdict, _ = verdict_of(Circumstances(ENOUGH, 0, float("nan"), downstream=False), found, ENOUGH)
        count["measured_cases"] += 1
        count["named"] += verdict == "antagonist"
        count["right"] += verdict == "antagonist" and suspects[0].container == antagonist
    return {
        "measured_windows": count["measured_windows"],
        "measured_cases": count["measured_cases"],
        "measured_top1": count["right"] / max(count["named"], 1),
        "measured_abstained_frac": 1.0 - count["named"] / max(count["measured_cases"], 1),
    }


def _scene(evidence: Evidence) -> Scene:
    """All windows, each with sensitivities as they were known when it began."""
    ends = micros(evidence.state["window_end"])
    scene = scene_of(evidence, int(ends.max()))
    then = sensitivities(scene.rows, micros(scene.rows["window_start"]), evidence.profiles)
    return replace(scene, sensitivity=then)


def _cases() -> list[tuple[Row, str]]:
    """Victims of windows with several antagonists of which one is known to be loud, and its container."""
    clean = {row["window"] for row in _read("windows") if row["clean"] == "True"}
    members, victims = defaultdict[str, list[Row]](list), [row for row in _read("victims") if row["window"] in clean]
    for row in _read("members"):
        if row["role"] == "ant":
            members[row["window"]].append(row)
    alone = defaultdict[Kind, list[float]](list)
    for victim in victims:
        beside = members[victim["window"]]
        if len(beside) == 1 and victim["slow_mean"]:
            alone[_kind(beside[0], victim)].append(float(victim["slow_mean"]))
    usual = {kind: median(slow) for kind, slow in alone.items()}
    found = list[tuple[Row, str]]()
    for victim in victims:
        told = [(one, usual.get(_kind(one, victim), float("nan"))) for one in members[victim["window"]]]
        loud = [one for one, usually in told if usually >= LOUD]
        harmless = [one for one, usually in told if usually <= HARMLESS]
        if len(told) > 1 and len(loud) == 1 and len(harmless) == len(told) - 1:
            found.append((victim, f"{victim['window']}-ant{loud[0]['idx']}"))
    return found


def _kind(antagonist: Row, victim: Row) -> Kind:
    return antagonist["name"], antagonist["core"] == victim["core"]


def _read(name: str) -> list[Row]:
    with (FOLDER / f"{name}.csv").open() as opened:
        return list(csv.DictReader(opened))
