"""Stock: labels of simulated clusters that send what kubelets as they come send, against what was true."""

import sys
import tempfile
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry

from advisor.diagnosis.slowdown_causes import Diagnosis
from benchmarks.antagonists import ARRIVE_S, EVERY_S, START_S, STAY_S, Cast, Scene, cast_of, played
from benchmarks.diagnosis import FIRST_SEED, LEARNT_H, QUIET, cases_of, judged, late_of, tables_of, true_slowdowns
from benchmarks.reassign.timed import whole
from benchmarks.runner import TOP, Benchmark, Result
from benchmarks.stock_mixed import run_mixed
from cohabit.ingestion.simulation import write_messages
from cohabit.terminal.locations import TOPICS
from features.columnar.arrow_columns import floats, micros
from features.columnar.windows import LABEL_US
from features.contention.node_state import is_best_effort
from features.jobs.job_plan import whole_stretch
from features.jobs.local_job import run_local
from features.schema.tables import TABLES
from ingest.lake.tables import Lake
from ingest.pipeline.metrics import IngestMetrics
from ingest.pipeline.runner import ingest_files
from ingest.simulator.law import HIDDEN, PLATFORMS
from ingest.simulator.laws import LAWS
from ingest.simulator.simulate import Plan, built_in, hidden_apps, simulate
from ingest.simulator.simulated_cluster import Truth, load_at, neighbour_load
from ingest.simulator.stock import CPU, DISK, by_resource, draw_stock
from models.metrics.errors_and_ranks import spearman

Floats = NDArray[np.float64]
SLOW, HARMED = 1.25, 1.1
MOSTLY, ALONE = 0.5, 0.9
"""Share of the harm that waiting can see, or cannot, from which a window counts as such."""
UNSEEN = [HIDDEN.index("llc"), HIDDEN.index("memory_bandwidth")]
LOW_IS_GOOD = ("blind_labelled", "throttled_labels")
HOURS = 8
LOUD = np.array(
    [[0.8, 0.0, 0.1, 0.0, 0.0], [0.1, 0.0, 0.1, 0.9, 0.1], [0.5, 0.1, 0.1, 0.6, 0.0], [0.6, 0.0, 0.1, 0.0, 0.5]]
)
"""(kinds, hidden resources) of loud containers, see benchmarks.antagonists: most of what these do makes others wait."""
PER_LAW = {"nodes": 9, "apps": 18, "per_node": 10, "hours": 6.0, "stock": True}


@dataclass(frozen=True, slots=True)
class Labelled:
    """(n,) label windows of latency-sensitive containers.

    Args:
        label: ratio; NaN without one.
        truth: mean true slowdown, ratio.
        harm: (n, hidden resources) slowdown - 1 that each resource alone would cause.
        throttled: share of time held back by the own limit.
    """

    label: Floats
    truth: Floats
    harm: Floats
    throttled: Floats


def run(arguments: Namespace, rng: np.random.Generator) -> Result:
    """Clusters of each law; of each figure the worst law's stands at the top."""
    if arguments.mixed:
        return run_mixed(arguments, rng)
    laws = {law: _of_law(law, arguments.seeds) for law in LAWS}
    worst = {
        name: (max if name in LOW_IS_GOOD else min)(of[name] for of in laws.values())
        for name in next(iter(laws.values()))
    }
    return {TOP: worst, **laws}


def _of_law(law: str, seeds: int) -> dict[str, float]:
    """Figures of all clusters of a law together; those of one without noise go to the error stream."""
    parts, count = [], Counter[str]()
    for seed in range(FIRST_SEED, FIRST_SEED + seeds):  # thresholds were looked at with others
        parts.append(labelled(Plan(law=law, seed=seed, **PER_LAW)))  # type: ignore[arg-type]
        count += diagnosed(law, seed)
        _say(f"{law}, seed {seed}", figures(parts[-1]) | count)
    quiet = Plan(law=law, seed=FIRST_SEED, stock_noise=0.0, **PER_LAW)  # type: ignore[arg-type]
    _say(f"{law} without noise, does not count", figures(labelled(quiet)))
    together = Labelled(*(np.concatenate([getattr(part, name) for part in parts]) for name in Labelled.__slots__))
    right = count["right"] / max(1, count["cases"])
    named = {"diagnosis_named": float(count["named"]), "named_slow": count["named_slow"] / max(1, count["named"])}
    return figures(together) | {"diagnosis_right": right, "diagnosis_cases": float(count["cases"])} | named


def _say(what: str, values: Mapping[str, float]) -> None:
    print(f"{what}: {', '.join(f'{name} {value:.3g}' for name, value in values.items())}", file=sys.stderr, flush=True)


def diagnosed(law: str, seed: int) -> Counter[str]:
    """What is said of victims of loud containers whose harm mostly is waiting, see benchmarks.diagnosis."""
    cast = cast_of(law, seed, loud=True, per_node=6, hours=HOURS, kinds=LOUD)
    cast = replace(cast, stock=draw_stock(cast.apps, np.random.default_rng([seed, 4])))
    count = Counter[str]()
    with tempfile.TemporaryDirectory(prefix="cohabit-stock-") as name:
        lake, scenes = played(cast, Path(name), seed)
        tables = tables_of(lake)
    for hour in range(LEARNT_H, HOURS):
        time_s = START_S + hour * EVERY_S + ARRIVE_S + STAY_S - LABEL_US / 1e6
        said, late = tables.at(time_s), late_of(scenes, time_s)
        middle = late[len(late) // 2]
        for case in cases_of(cast, late):
            if case.antagonist is not None and _waits(cast, middle, case.container):
                count += judged(case, said.get(case.container))
        count += _named(said, late)
    return count


def _named(said: Mapping[str, Diagnosis], late: Sequence[Scene]) -> Counter[str]:
    """How many are said to be slowed down, and how many of them are."""
    true = true_slowdowns(late)
    slowdowns = [np.mean(true[one]) for one, of in said.items() if one in true and of.verdict != "self-inflicted"]
    return Counter(named=len(slowdowns), named_slow=int(sum(one >= QUIET for one in slowdowns)))


def _waits(cast: Cast, scene: Scene, uid: str) -> bool:
    """Whether at least MOSTLY of a container's harm comes from CPU and disk, and none from its own limit."""
    app, node = (np.array([getattr(c, name) for c in scene.containers]) for name in ("app", "node"))
    load, one = load_at(app, scene.time_s), [c.uid for c in scene.containers].index(uid)
    neighbours = neighbour_load(app, node, load, len(cast.best_effort))
    row = slice(one, one + 1)
    harm = by_resource(cast.law, app[row], neighbours[row], load[row], node[row] % len(PLATFORMS))[0] - 1.0
    free = cast.stock is None or np.isnan(cast.stock.limit_cores[app[one]])
    return bool(free and harm[[CPU, DISK]].sum() >= MOSTLY * harm.sum())


def figures(of: Labelled) -> dict[str, float]:
    """Shares and ranks; `throttled_labels` are of 1,000 windows that the own limit throttled."""
    seen, total = np.isfinite(of.label), of.harm.sum(axis=1)
    waits = of.harm[:, [CPU, DISK]].sum(axis=1) >= MOSTLY * total
    blind = (of.harm[:, UNSEEN].sum(axis=1) >= ALONE * total) & (of.truth >= HARMED)
    held = of.throttled > 0.0
    flagged = of.label >= SLOW
    return {
        "modelled_share": float(seen.mean()),
        "label_spearman": spearman(of.label[seen & waits], of.truth[seen & waits]),
        "blind_labelled": float((flagged & blind).sum() / max(1, blind.sum())),
        "throttled_labels": float(1000.0 * (flagged & held).sum() / max(1, held.sum())),
        "windows": float(len(of.label)),
        "blind_windows": float(blind.sum()),
        "throttled_windows": float(held.sum()),
    }


def labelled(plan: Plan) -> Labelled:
    """Labels that the features job makes of a plan's messages, and what was true."""
    true: dict[tuple[str, int], list[Floats]] = {}
    with tempfile.TemporaryDirectory(prefix="cohabit-stock-") as name:
        folder = Path(name)
        for messages, happened in simulate(plan, *built_in(plan)):
            write_messages(folder, messages)
            for key, values in _truth(plan, happened):
                true.setdefault(key, []).append(values)
        lake = Lake.open(folder / "lake", TABLES)
        ingest_files(folder, TOPICS, lake, stop=Event(), metrics=IngestMetrics(CollectorRegistry()))
        stretch = whole_stretch(lake)
        assert stretch is not None  # noqa: S101 - something was simulated
        run_local(lake, stretch, lambda _table, _rows: None)
        labels, usage = lake.read("labels"), lake.read("usage")
    throttled = _throttled(usage)
    rows = labels.filter(pa.array(~is_best_effort(labels["qos"])))
    keys = list(zip(rows["container"].to_pylist(), micros(rows["window_end"]).tolist(), strict=True))
    known = np.array([key in true for key in keys])
    mean = np.array([np.mean(true[key], axis=0) for key in keys if key in true])
    held = np.array([throttled.get(key, 0.0) for key in keys])
    return Labelled(np.exp(floats(rows["log_slowdown"]))[known], mean[:, 0], mean[:, 1:], held[known])


def _truth(plan: Plan, happened: Truth) -> Iterator[tuple[tuple[str, int], Floats]]:
    """Container and end of the label window, and true slowdown and harm by resource, of one interval."""
    apps = hidden_apps(plan)
    app = np.array([c.app for c in happened.containers], np.int64)
    node = np.array([c.node for c in happened.containers], np.int64)
    load = load_at(app, happened.time_s)
    neighbours = neighbour_load(app, node, load, len(apps.best_effort))
    alone = by_resource(LAWS[plan.law](apps), app, neighbours, load, node % 3)
    end = -(-round(happened.time_s * 1e6) // LABEL_US) * LABEL_US
    values = np.column_stack([happened.slowdown, alone - 1.0])
    return (((c.uid, end), row) for c, row in zip(happened.containers, values, strict=True))


def _throttled(usage: pa.Table) -> dict[tuple[str, int], float]:
    """Largest share of time that the own limit held a container back, by container and label window."""
    ends = pa.array(-(-micros(usage["ts"]) // LABEL_US) * LABEL_US)
    held = usage.select(["container", "cpu_throttled_frac"]).append_column("end", ends)
    most = held.group_by(["container", "end"]).aggregate([("cpu_throttled_frac", "max")])
    share = pc.fill_null(most["cpu_throttled_frac_max"], 0.0).to_pylist()
    return dict(zip(zip(most["container"].to_pylist(), most["end"].to_pylist(), strict=True), share, strict=True))


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--seeds", type=whole(1, 100), default=10, help="clusters of each law, with --mixed in all (10)"
    )
    parser.add_argument(
        "--mixed", action="store_true", help="instead: models of fleets of which every second app lacks latency"
    )


BENCHMARK = Benchmark(
    "stock", "labels where only kubelets send metrics, under three laws of interference", run, 1, _arguments
)
