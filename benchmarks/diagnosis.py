"""Diagnosis: how often who really slows somebody down is named, on simulated clusters whose law says who does."""

import sys
import tempfile
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from advisor.decision import LIMIT_SLOWDOWN
from advisor.diagnosis.evidence import diagnose
from advisor.diagnosis.signs import LOOKED
from advisor.diagnosis.verdicts import Diagnosis
from benchmarks.antagonists import ARRIVE_S, EVERY_S, START_S, STAY_S, Cast, Scene, cast_of, played, truly_added
from benchmarks.reassign.timed import whole
from benchmarks.runner import TOP, Benchmark, Result
from features.arrow import floats, micros
from features.catalog import NAMES
from features.windows import LABEL_US
from ingest.lake import Lake
from ingest.simulator.laws import LAWS

LOUD_PER_NODE, CALM_PER_NODE = 4, 2
LEARNT_H = 3
"""Hours before anybody is diagnosed, so that there is something to compare with."""
CLEAR, AHEAD = 0.5, 1.5
"""Whose doing it is counts as clear where one neighbour adds so much of the slowdown, and so many times the next."""
QUIET = 1.15
"""Up to that, nobody truly suffers."""
US = 1_000_000


@dataclass(frozen=True)
class Tables:
    """What a diagnosis reads."""

    state: pa.Table
    labels: pa.Table
    profiles: pa.Table
    antagonists: pa.Table

    def at(self, time_s: float) -> dict[str, Diagnosis]:
        """Diagnoses at a time, by container."""
        found = diagnose(self.state, self.labels, self.profiles, round(time_s * US))
        return {one.container: one for one in found}


@dataclass(frozen=True)
class Case:
    """A victim at a time.

    Args:
        container: it.
        node: where.
        slowdown: true mean over the last windows.
        held: whether its own limit holds it back.
        culprit: the neighbour whose doing it clearly is; None where that is not clear.
    """

    container: str
    node: str
    slowdown: float
    held: bool
    culprit: str | None


def run(arguments: Namespace, _: np.random.Generator) -> Result:
    """Worlds with loud containers and calm ones, under each law."""
    laws = [arguments.law] if arguments.law else list(LAWS)
    count, baselines, hours = Counter[str](), Counter[str](), 0.0
    for law in laws:
        for seed in range(1, arguments.seeds + 1):
            found, simple = _loud(law, seed, arguments.hours)
            _told(law, seed, found)
            count += found
            baselines += simple
            calm = cast_of(law, seed, loud=False, per_node=CALM_PER_NODE, hours=arguments.hours)
            count["false_alarms"] += _alarms(calm, seed)
            hours += calm.nodes * (calm.hours - LEARNT_H)
    named = count["right"] + count["wrong"]
    top = {
        "cases": count["cases"],
        "culprit_top1": count["right"] / max(named, 1),
        "abstained_frac": 1.0 - named / max(count["cases"], 1),
        "throttled": count["held"],
        "throttled_blamed": count["held_blamed"],
        "throttled_told": count["held_told"] / max(count["held"], 1),
        "false_alarms": count["false_alarms"],
        "node_days": hours / 24,
        "false_alarms_per_10_node_days": 240 * count["false_alarms"] / hours,
    }
    simpler = {name: {"culprit_top1": baselines[name] / max(count["cases"], 1)} for name in BASELINES}
    return {TOP: top, **simpler}


BASELINES = ("correlation", "loudest", "newest")
"""The neighbour whose use goes along most; the one that uses most; the one that came last. None of them abstains."""


def _told(law: str, seed: int, found: Mapping[str, int]) -> None:
    told = ", ".join(f"{name} {number}" for name, number in sorted(found.items()))
    print(f"{law}, seed {seed}: {told}", file=sys.stderr, flush=True)


def _loud(law: str, seed: int, hours: float) -> tuple[Counter[str], Counter[str]]:
    """What was said of victims of loud containers, and how often simpler means are right."""
    cast = cast_of(law, seed, loud=True, per_node=LOUD_PER_NODE, hours=hours)
    count, simple = Counter[str](), Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        lake, scenes = played(cast, Path(folder), seed)
        tables = _tables(lake)
    for hour in range(LEARNT_H, int(hours)):
        time_s = START_S + hour * EVERY_S + ARRIVE_S + STAY_S - LABEL_US / US
        said = tables.at(time_s)
        for case in _cases(cast, _late(scenes, time_s)):
            one = said.get(case.container)
            if case.held:
                count += _held(one)
            elif case.culprit is not None:
                count += _judged(case, one)
                simple += _simple(case, tables, time_s)
    return count, simple


def _held(one: Diagnosis | None) -> Counter[str]:
    verdict = one.verdict if one else ""
    return Counter(held=1, held_blamed=int(verdict == "culprit"), held_told=int(verdict == "self-inflicted"))


def _judged(case: Case, one: Diagnosis | None) -> Counter[str]:
    if one is None:
        return Counter(cases=1, missed=1)
    if one.verdict != "culprit":
        return Counter({"cases": 1, one.verdict: 1})
    return Counter(cases=1, right=1) if one.suspects[0].container == case.culprit else Counter(cases=1, wrong=1)


def _late(scenes: Iterable[Scene], time_s: float) -> list[Scene]:
    """Intervals of the windows that a diagnosis at a time looks at."""
    return [scene for scene in scenes if time_s - LOOKED * LABEL_US / US < scene.time_s <= time_s]


def _cases(cast: Cast, late: list[Scene]) -> list[Case]:
    """Latency-sensitive containers that were there all the time and truly suffer, or are held back."""
    middle, found = late[len(late) // 2], list[Case]()
    slow = _true(late)
    for number, one in enumerate(middle.containers):
        if cast.best_effort[one.app] or len(slow[one.uid]) < len(late):
            continue
        slowdown, held = float(np.mean(slow[one.uid])), all(one.uid in scene.held for scene in late)
        if held or slowdown >= LIMIT_SLOWDOWN:
            culprit = None if held else _culprit(cast, middle, number)
            found.append(Case(one.uid, f"node-{one.node:04d}", slowdown, held, culprit))
    return found


def _true(late: list[Scene]) -> dict[str, list[float]]:
    """True slowdowns by container."""
    found = dict[str, list[float]]()
    for scene in late:
        for one, slowdown in zip(scene.containers, scene.slowdown.tolist(), strict=True):
            found.setdefault(one.uid, []).append(slowdown)
    return found


def _culprit(cast: Cast, scene: Scene, number: int) -> str | None:
    """The loud container whose doing it clearly is."""
    added = truly_added(cast, scene, number)
    ranked = sorted(added, key=lambda uid: added[uid], reverse=True)
    loud = {one.uid for one in scene.containers if one.app >= cast.quiet}
    clear = added[ranked[0]] >= CLEAR * (scene.slowdown[number] - 1.0)
    ahead = len(ranked) == 1 or added[ranked[0]] >= AHEAD * added[ranked[1]]
    return ranked[0] if clear and ahead and ranked[0] in loud else None


def _simple(case: Case, tables: Tables, time_s: float) -> Counter[str]:
    """Which simpler means name the right one."""
    ends = micros(tables.state["window_end"])
    late = (ends > (time_s - LOOKED * LABEL_US / US) * US) & (ends <= time_s * US)
    here = pc.and_(pc.equal(tables.state["node"], case.node), pc.not_equal(tables.state["container"], case.container))
    rows = tables.state.filter(pc.and_(here, pa.array(late)))
    use = np.nansum(np.column_stack([floats(rows[f"demand_{name}"]) for name in NAMES]), axis=1)
    names, who = np.unique(np.asarray(rows["container"].to_pylist(), object), return_inverse=True)
    loudest = names[np.argmax(np.bincount(who, use) / np.bincount(who))]
    of = tables.antagonists.filter(pc.equal(tables.antagonists["container"], case.container))
    hour = micros(of["window_end"])
    first = of.filter(pa.array((hour <= time_s * US) & (hour > time_s * US - 3600 * US)))
    first = first.filter(pc.equal(first["rank"], 1)).sort_by("window_end")
    told = first["antagonist"][-1].as_py() if first.num_rows else None
    newest = max(names.tolist())
    return Counter(
        correlation=int(told == case.culprit), loudest=int(loudest == case.culprit), newest=int(newest == case.culprit)
    )


def _alarms(cast: Cast, seed: int) -> int:
    """How often something is said to be wrong, one stretch of windows after the other, though nobody truly suffers."""
    with tempfile.TemporaryDirectory() as folder:
        lake, scenes = played(cast, Path(folder), seed)
        tables = _tables(lake)
    found, step_s = 0, LOOKED * LABEL_US / US
    for number in range(int(LEARNT_H * 3600 / step_s), int(cast.hours * 3600 / step_s)):
        time_s = START_S + (number + 1) * step_s
        late = _late(scenes, time_s)
        slow, held = _true(late), frozenset().union(*(scene.held for scene in late))
        for one in tables.at(time_s).values():
            quiet = one.container not in held and np.mean(slow.get(one.container, [1.0])) < QUIET
            found += int(one.verdict != "not enough data" and quiet)
    return found


def _tables(lake: Lake) -> Tables:
    return Tables(*(lake.read(name) for name in ("node_state", "labels", "profiles", "antagonists")))


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--law", choices=sorted(LAWS), help="by which containers slow each other down (all)")
    parser.add_argument("--seeds", type=whole(1, 100), default=2, help="clusters for each law (2)")
    parser.add_argument("--hours", type=whole(4, 1000), default=10, help="of each cluster (10)")


BENCHMARK = Benchmark("diagnosis", "how often the container that slows others down is named", run, 1, _arguments)
