"""Diagnosis: how often who really slows somebody down is named, on simulated clusters whose law says who does."""

import sys
import tempfile
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from advisor.diagnosis.analyse import Evidence, diagnose
from advisor.diagnosis.slowdown_causes import Diagnosis
from advisor.diagnosis.slowdown_outliers import LOOKED
from advisor.scoring.score_scale import LIMIT_SLOWDOWN
from benchmarks.antagonists import ARRIVE_S, EVERY_S, START_S, STAY_S, Cast, Scene, cast_of, played, truly_added
from benchmarks.diagnosis_measured import measured
from benchmarks.reassign.timed import whole
from benchmarks.runner import TOP, Benchmark, Result
from features.columnar.arrow_columns import floats, micros
from features.columnar.windows import LABEL_US
from features.contention.node_state import Facts
from features.schema.catalog import NAMES
from ingest.lake.tables import Lake
from ingest.simulator.laws import LAWS

LOUD_PER_NODE, CALM_PER_NODE = 4, 2
LEARNT_H = 3
"""Hours before anybody is diagnosed, so that there is something to compare with."""
CLEAR, AHEAD = 0.5, 1.5
"""Whose doing it is counts as clear where one neighbour adds so much of the slowdown, and so many times the next."""
QUIET = 1.15
"""Up to that, nobody truly suffers."""
US = 1_000_000
FIRST_SEED = 101
"""Thresholds were looked at with the first ten."""


@dataclass(frozen=True)
class Tables:
    """What a diagnosis reads."""

    evidence: Evidence
    antagonists: pa.Table

    def at(self, time_s: float) -> dict[str, Diagnosis]:
        """Diagnoses at a time, by container."""
        found = diagnose(self.evidence, round(time_s * US))
        return {one.container: one for one in found}


@dataclass(frozen=True)
class Case:
    """A victim at a time.

    Args:
        container: it.
        node: where.
        slowdown: true mean over the last windows.
        alone: why nobody else is to blame: `held` by its own limit, `ill` for a reason that nothing tells; or nothing.
        antagonist: the neighbour whose doing it clearly is; None where that is not clear.
    """

    container: str
    node: str
    slowdown: float
    alone: str
    antagonist: str | None


def run(arguments: Namespace, _: np.random.Generator) -> Result:
    """Worlds with loud containers and calm ones, under each law."""
    laws = [arguments.law] if arguments.law else list(LAWS)
    count, baselines, hours = Counter[str](), Counter[str](), 0.0
    for law in laws:
        for seed in range(FIRST_SEED, FIRST_SEED + arguments.seeds):
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
        "right_of_all": count["right"] / max(count["cases"], 1),
        "abstained_frac": 1.0 - named / max(count["cases"], 1),
        "throttled": count["held"],
        "throttled_blamed": count["held_blamed"],
        "throttled_told": count["held_told"] / max(count["held"], 1),
        "ill": count["ill"],
        "ill_blamed": count["ill_blamed"],
        "false_alarms": count["false_alarms"],
        "node_days": hours / 24,
        "false_alarms_per_10_node_days": 240 * count["false_alarms"] / hours,
        **measured(),
    }
    simpler = {name: {"right_of_all": baselines[name] / max(count["cases"], 1)} for name in BASELINES}
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
        tables = tables_of(lake)
    for hour in range(LEARNT_H, int(hours)):
        time_s = START_S + hour * EVERY_S + ARRIVE_S + STAY_S - LABEL_US / US
        said = tables.at(time_s)
        for case in cases_of(cast, late_of(scenes, time_s)):
            one = said.get(case.container)
            if case.alone:
                count += _alone(case.alone, one)
            elif case.antagonist is not None:
                count += judged(case, one)
                simple += _simple(case, tables, time_s)
    return count, simple


def _alone(why: str, one: Diagnosis | None) -> Counter[str]:
    verdict = one.verdict if one else "missed"
    return Counter(
        {why: 1, f"{why}_blamed": int(verdict == "antagonist"), f"{why}_told": int(verdict == "self-inflicted")}
    )


def judged(case: Case, one: Diagnosis | None) -> Counter[str]:
    """One case, counted by what is said of it."""
    if one is None:
        return Counter(cases=1, missed=1)
    if one.verdict != "antagonist":
        return Counter({"cases": 1, one.verdict: 1})
    return Counter(cases=1, right=1) if one.suspects[0].container == case.antagonist else Counter(cases=1, wrong=1)


def late_of(scenes: Iterable[Scene], time_s: float) -> list[Scene]:
    """Intervals of the windows that a diagnosis at a time looks at."""
    return [scene for scene in scenes if time_s - LOOKED * LABEL_US / US < scene.time_s <= time_s]


def cases_of(cast: Cast, late: list[Scene]) -> list[Case]:
    """Latency-sensitive containers that were there all the time and truly suffer, or are held back."""
    middle, found = late[len(late) // 2], list[Case]()
    slow = true_slowdowns(late)
    for number, one in enumerate(middle.containers):
        if cast.best_effort[one.app] or len(slow[one.uid]) < len(late):
            continue
        slowdown = float(np.mean(slow[one.uid]))
        held, ill = (all(one.uid in of for of in some) for some in zip(*((s.held, s.ill) for s in late), strict=True))
        if held or (ill and slowdown < QUIET):
            found.append(Case(one.uid, f"node-{one.node:04d}", slowdown, "held" if held else "ill", None))
        elif slowdown >= LIMIT_SLOWDOWN and not ill:
            found.append(Case(one.uid, f"node-{one.node:04d}", slowdown, "", _antagonist(cast, middle, number)))
    return found


def true_slowdowns(late: Sequence[Scene]) -> dict[str, list[float]]:
    """True slowdowns by container."""
    found = dict[str, list[float]]()
    for scene in late:
        for one, slowdown in zip(scene.containers, scene.slowdown.tolist(), strict=True):
            found.setdefault(one.uid, []).append(slowdown)
    return found


def _antagonist(cast: Cast, scene: Scene, number: int) -> str | None:
    """The loud container whose doing it clearly is."""
    added = truly_added(cast, scene, number)
    ranked = sorted(added, key=lambda uid: added[uid], reverse=True)
    loud = {one.uid for one in scene.containers if one.app >= cast.quiet}
    clear = added[ranked[0]] >= CLEAR * (scene.slowdown[number] - 1.0)
    ahead = len(ranked) == 1 or added[ranked[0]] >= AHEAD * added[ranked[1]]
    return ranked[0] if clear and ahead and ranked[0] in loud else None


def _simple(case: Case, tables: Tables, time_s: float) -> Counter[str]:
    """Which simpler means name the right one."""
    state = tables.evidence.state
    ends = micros(state["window_end"])
    late = (ends > (time_s - LOOKED * LABEL_US / US) * US) & (ends <= time_s * US)
    here = pc.and_(pc.equal(state["node"], case.node), pc.not_equal(state["container"], case.container))
    rows = state.filter(pc.and_(here, pa.array(late)))
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
        correlation=int(told == case.antagonist),
        loudest=int(loudest == case.antagonist),
        newest=int(newest == case.antagonist),
    )


def _alarms(cast: Cast, seed: int) -> int:
    """How often something is said to be wrong, one stretch of windows after the other, though nobody truly suffers."""
    with tempfile.TemporaryDirectory() as folder:
        lake, scenes = played(cast, Path(folder), seed)
        tables = tables_of(lake)
    found, step_s = 0, LOOKED * LABEL_US / US
    for number in range(int(LEARNT_H * 3600 / step_s), int(cast.hours * 3600 / step_s)):
        time_s = START_S + (number + 1) * step_s
        late = late_of(scenes, time_s)
        slow, alone = true_slowdowns(late), frozenset().union(*(scene.held | scene.ill for scene in late))
        for one in tables.at(time_s).values():
            quiet = one.container not in alone and np.mean(slow.get(one.container, [1.0])) < QUIET
            found += int(one.verdict != "not enough data" and quiet)
    return found


def tables_of(lake: Lake) -> Tables:
    """What a diagnosis reads of a lake."""
    facts = Facts(lake.read("nodes"), lake.read("placements"))
    evidence = Evidence(lake.read("node_state"), lake.read("labels"), lake.read("profiles"), facts)
    return Tables(evidence, lake.read("antagonists"))


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--law", choices=sorted(LAWS), help="by which containers slow each other down (all)")
    parser.add_argument("--seeds", type=whole(1, 100), default=2, help="clusters for each law (2)")
    parser.add_argument("--hours", type=whole(4, 1000), default=10, help="of each cluster (10)")


BENCHMARK = Benchmark("diagnosis", "how often the container that slows others down is named", run, 1, _arguments)
