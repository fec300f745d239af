"""Judging: what Cohabit says of a recording, next to what the load generator measured and what was done. An edge."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic, sleep
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cohabit.cli.dev.trial import OTLP
from e2e.kube.errors import E2eError
from e2e.stock.recording import CACHE, LIMITED, NOISY, PHASES, PODS, STREAMING, Recorded, alone
from e2e.stock.site import CLUSTER, NODE, trial
from e2e.stock.stretched import APP, Stretch
from features.columnar.arrow_columns import floats, micros
from features.contention.node_state import Facts
from features.contention.usage_rates import Rated, rates
from features.schema.tables import TABLES
from ingest.devkafka.broker import create_topics, running_broker
from ingest.kafka_io.replay import Sender
from ingest.lake.row_filter import EPOCH, FOREVER
from ingest.lake.tables import Lake
from ingest.schema.topics import TOPICS

MAX_QPS_OFF, MAX_MEAN_OFF, MAX_SLOWDOWN_OFF = 0.02, 0.05, 1.3
Floats = NDArray[np.float64]
JUDGED_WINDOWS = 5
WINDOW_MS = 300_000
NAMED_S, VICTIMS, BLIND = 120.0, 1, 3
PRESSURES = ("container_pressure_", "node_pressure_")


class Finding(NamedTuple):
    """One thing that was looked at."""

    what: str
    found: str
    wanted: str
    holds: bool


@dataclass(frozen=True)
class Replayed:
    """A lake with the recording in stretched time."""

    lake: Path
    stretch: Stretch
    recorded: Recorded

    def end_of(self, phase: str) -> datetime:
        """When a phase ended."""
        return datetime.fromtimestamp(round(self.stretch.at_ms(self.recorded.spans[phase][1]) / WINDOW_MS) * 300, UTC)

    def victims(self, phase: str | None) -> tuple[int, dict[str, Any]]:
        """Exit code of `cohabit victims`, at the end of a phase or now; victims by pod, and what it printed."""
        out = self.lake.with_suffix(".json")
        out.unlink(missing_ok=True)
        at = [] if phase is None else ["--at", f"{self.end_of(phase):%Y-%m-%dT%H:%M}"]
        code, printed = ran(self.lake, "victims", "--json", str(out), *at)
        names = {uid: name for name, uid in self.recorded.uids.items()}
        said = json.loads(out.read_text()) if out.exists() else {"victims": []}
        found = {names.get(one["container"], one["container"]): one for one in said["victims"]}
        for one in found.values():
            one["by"] = names.get(one["suspects"][0]["container"], "?") if one["suspects"] else ""
        return code, {"victims": found, "printed": printed}


def ran(lake: Path, *words: str) -> tuple[int, str]:
    """Exit code and words of a command."""
    settings = {**os.environ, "COHABIT_LAKE": str(lake), "COHABIT_CLUSTER": CLUSTER, "COLUMNS": "160"}
    command = [sys.executable, "-m", "cohabit", *words]
    done = subprocess.run(command, env=settings, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def _done(lake: Path, *words: str) -> None:
    """Run a command that must go well."""
    code, printed = ran(lake, *words)
    if code:
        raise E2eError(f"cohabit {words[0]} ended with {code}: {printed}")


def stretch_of(recorded: Recorded, factor: int) -> Stretch:
    """Hours in the past in which phases begin with windows."""
    first, last = recorded.spans[PHASES[0].name][0], recorded.spans["end"][1]
    end = round(last) + 1
    while (factor * round(first) - (factor - 1) * end) % WINDOW_MS:
        end += 1
    return Stretch(end, factor)


def judged(folder: Path, recorded: Recorded, factor: int, say: Callable[[str], None]) -> list[Finding]:
    """Everything that is wanted of Cohabit."""
    stretch = stretch_of(recorded, factor)
    whole = Replayed(folder / "lake", stretch, recorded)
    say("sending the first part to a trial")
    settings = {"COHABIT_LAKE": str(whole.lake), "COHABIT_CLUSTER": CLUSTER}
    with trial(folder, settings) as kafka:
        until = recorded.spans["cpu"][1]
        send(kafka, whole, lambda at_ms: at_ms <= until)
        found = [*_first_victim(whole)]
        say("sending the rest")
        send(kafka, whole, lambda at_ms: at_ms > until)
        _await_end(whole)
    _done(whole.lake, "features")
    found += [*_rates(whole), *_phases(whole), *_letters(whole)]
    say("sending it without what servers say of themselves, then without pressure")
    left_out = {"pressure": (APP,), "blind": (APP, *PRESSURES, "redis_")}
    with ExitStack() as stack, ThreadPoolExecutor(len(left_out)) as pool:
        brokers = [stack.enter_context(running_broker(folder / name / "broker")).bootstrap for name in left_out]
        folders = [folder / name for name in left_out]
        blunt, blind = pool.map(replayed_alone, folders, brokers, [whole] * len(left_out), left_out.values())
    return [*found, *_pressure_alone(blunt), *_blind(blind)]


def send(kafka: str, of: Replayed, chosen: Callable[[float], bool], without: tuple[str, ...] = ()) -> None:
    """Send what Kafka got at chosen times, in stretched time."""
    with closing(Sender(kafka)) as sender:
        for topic, message in sorted(of.recorded.messages, key=lambda one: one[1].arrived_ms):
            if chosen(message.arrived_ms):
                sender.send(topic, of.stretch.message(topic, message, without=without))
        sender.flush()


def replayed_alone(folder: Path, bootstrap: str, of: Replayed, without: tuple[str, ...]) -> Replayed:
    """The same in a lake of its own, without metrics whose names begin so."""
    found = Replayed(folder / "lake", of.stretch, of.recorded)
    create_topics(bootstrap, [*TOPICS.values(), OTLP])
    send(bootstrap, of, lambda _: True, without)
    _done(found.lake, "ingest", "--bootstrap", bootstrap, "--topic", f"{OTLP.name}=otlp-proto", "--until-end")
    _done(found.lake, "features")
    return found


def _first_victim(of: Replayed) -> Iterator[Finding]:
    """The third command of docs/quickstart.md, as soon as it has something to say."""
    began, code, said = monotonic(), 0, dict[str, Any]()
    while monotonic() < began + NAMED_S:
        code, said = of.victims(None)
        if code == VICTIMS:
            break
        sleep(2)
    found = said["victims"]
    named = _named(found) == {NOISY}
    text = f"{_text(found)}, {monotonic() - began:.0f} s later" if found else said["printed"][:300]
    yield Finding("victims of the trial", text, f"antagonist {NOISY} in {NAMED_S:.0f} s", named)


def _await_end(of: Replayed) -> None:
    """Wait until the trial has landed everything."""
    wanted = of.stretch.at_ms(of.recorded.spans["end"][1] - 2000) * 1000
    deadline = monotonic() + NAMED_S
    while monotonic() < deadline:
        span = Lake.to_read(of.lake, TABLES).span("samples")
        if span is not None and span[1] >= wanted:
            return
        sleep(1)
    raise E2eError(f"the trial did not land everything in {NAMED_S:.0f} s; its logs are next to {of.lake}")


def _rates(of: Replayed) -> Iterator[Finding]:
    """Requests and response times of each pod, and what node_exporter says."""
    found = _usage(of.lake)
    rows = found.usage.sort_by("ts").to_pylist()
    for name, uid in of.recorded.uids.items():
        if uid not in of.recorded.answers:
            continue
        start, end = of.recorded.spans[alone(name)]
        own = _minutes(of, [row for row in rows if row["container"] == uid], start, end)
        within = [one for one in of.recorded.answers[uid] if start <= one.at_ms < end]
        sent = (len(within) - 1) / (within[-1].at_ms - within[0].at_ms) * 1000
        yield _near(f"requests of {name}, 1/s", _mean(own, "qps"), sent, MAX_QPS_OFF)
        mean = float(np.average([row["rt_mean_ms"] for row in own], weights=[row["qps"] for row in own]))
        true = float(np.mean([one.took_ms for one in within if one.is_good]))
        yield _near(f"mean of {name}, ms", mean, true, MAX_MEAN_OFF)
    start, end = of.recorded.spans[PHASES[0].name][0], of.recorded.spans["end"][1]
    own = _minutes(of, [row for row in rows if row["container"] == of.recorded.uids[CACHE]], start, end)
    yield _near(f"requests of {CACHE}, 1/s", _mean(own, "qps"), of.recorded.redis_per_s, MAX_QPS_OFF)
    node = [row for row in found.node_usage.to_pylist() if row["node"] == NODE and row["cpu_cores"] is not None]
    yield Finding("minutes of node_exporter", f"{len(node)}", "> 0", bool(node))


def _minutes(of: Replayed, rows: Sequence[Mapping[str, Any]], start: float, end: float) -> list[Mapping[str, Any]]:
    """Whole minutes with requests between two moments of the recording."""
    low, high = of.stretch.at_ms(start), of.stretch.at_ms(end)
    return [row for row in rows if low < row["ts"].timestamp() * 1000 <= high and row["qps"]][2:-1]


def _mean(rows: Sequence[Mapping[str, Any]], column: str) -> float:
    return float(np.mean([row[column] for row in rows]))


def _near(what: str, found: float, wanted: float, most: float) -> Finding:
    off = found / wanted - 1
    return Finding(what, f"{found:.2f} ({off:+.1%})", f"{wanted:.2f}, within {most:.0%}", abs(off) <= most)


def _usage(lake: Path) -> Rated:
    opened = Lake.to_read(lake, TABLES)
    facts = Facts(opened.read("nodes"), opened.read("placements"))
    return rates(opened.rows("samples", EPOCH, FOREVER), facts)


def true_slowdown(of: Replayed, name: str, phase: str) -> float:
    """By the load generator: mean of a pod in the phase's last windows to that of when it was asked alone."""
    uid = of.recorded.uids[name]
    window_ms = WINDOW_MS / of.stretch.factor

    def mean(start: float, end: float) -> float:
        return float(
            np.mean([one.took_ms for one in of.recorded.answers[uid] if one.is_good and start <= one.at_ms < end])
        )

    start, end = of.recorded.spans[alone(name)]
    last = of.recorded.spans[phase][1]
    return mean(last - JUDGED_WINDOWS * window_ms, last) / mean(start + window_ms, end)


def _phases(of: Replayed) -> Iterator[Finding]:
    """What `cohabit victims` says at the end of each phase."""
    _, said = of.victims("cpu")
    for name, uid in of.recorded.uids.items():
        if uid not in of.recorded.answers:
            continue
        one, true = said["victims"].get(name), true_slowdown(of, name, "cpu")
        text = "no victim" if one is None else f"{one['slowdown']:.2f}, {one['verdict']} {one['by']}"
        off = np.inf if one is None or not one["slowdown"] else max(one["slowdown"] / true, true / one["slowdown"])
        wanted = f"{true:.2f}, antagonist {NOISY}"
        holds = one is not None and one["verdict"] == "antagonist" and one["by"] == NOISY and off <= MAX_SLOWDOWN_OFF
        yield Finding(f"{name} under CPU", text, wanted, holds)
    _, said = of.victims("limit")
    one = said["victims"].get(LIMITED)
    text = "no victim" if one is None else one["verdict"]
    yield Finding(f"{LIMITED} under its limit", text, "self-inflicted", text == "self-inflicted")
    labels = _labels(of, "limit", [LIMITED])
    text = f"{np.isfinite(labels).sum()} of {len(labels)}"
    yield Finding("its windows with a label", text, "0", len(labels) > 0 and not np.isfinite(labels).any())
    _, said = of.victims("stream")
    named = _named(said["victims"])
    yield Finding(f"{NOISY} while it is idle", _text(said["victims"]), "not named", NOISY not in named)


def _letters(of: Replayed) -> Iterator[Finding]:
    letters = Lake.to_read(of.lake, TABLES).read("dead_letters")
    reasons = sorted(set(letters["reason"].to_pylist()))
    yield Finding("dead letters", f"{letters.num_rows} {', '.join(reasons)}", "0", not letters.num_rows)


def _pressure_alone(of: Replayed) -> Iterator[Finding]:
    """Without what servers say of themselves the phase under CPU is found by pressure."""
    found = of.victims("cpu")[1]["victims"]
    yield Finding("by pressure alone, under CPU", _text(found), f"antagonist {NOISY}", _named(found) == {NOISY})
    least = np.nanmin(_labels(of, "cpu", list(PODS)))
    else_at = {
        (phase, name): np.nanmax(_labels(of, phase, [name])) for phase in ("together", "stream") for name in PODS
    }
    most = max(else_at.values())
    off = max(value / true_slowdown(of, name, phase) for (phase, name), value in else_at.items())
    text = f"{least:.2f} at least under CPU, {most:.2f} at most else, {off:.2f} of the load generator's"
    wanted = f"less than under CPU, at most {MAX_SLOWDOWN_OFF} of the load generator's"
    yield Finding("by pressure alone, slowdowns", text, wanted, bool(most < least and off <= MAX_SLOWDOWN_OFF))
    found = of.victims("stream")[1]["victims"]
    wanted = f"no antagonist but {STREAMING}"
    yield Finding("by pressure alone, under bandwidth", _text(found), wanted, _named(found) <= {STREAMING})


def _labels(of: Replayed, phase: str, names: Sequence[str]) -> Floats:
    """Slowdowns that labels say of pods in a phase's last windows; NaN without one."""
    rows = Lake.to_read(of.lake, TABLES).read("labels")
    end_us = round(of.end_of(phase).timestamp() * 1e6)
    wanted = [of.recorded.uids[name] for name in names]
    ends = micros(rows["window_end"])
    chosen = (ends <= end_us) & (ends > end_us - JUDGED_WINDOWS * WINDOW_MS * 1000)
    return np.exp(
        floats(rows.filter(pa.array(chosen & np.isin(rows["container"].to_pylist(), wanted)))["log_slowdown"])
    )


def _named(found: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """Neighbours that are named as antagonists."""
    return {one["by"] for one in found.values() if one["verdict"] == "antagonist"}


def _text(found: Mapping[str, Mapping[str, Any]]) -> str:
    return "; ".join(f"{name}: {one['verdict']} {one['by']}" for name, one in found.items()) or "no victims"


def _blind(of: Replayed) -> Iterator[Finding]:
    """Without pressure too nothing can be looked at, and that is said."""
    code, said = of.victims(None)
    first = next((line for line in said["printed"].splitlines() if line.strip()), "")
    holds = code == BLIND and "looked at 0%" in first
    yield Finding("without pressure", f"exit code {code}: {first[:90]}", f"exit code {BLIND}, looked at 0%", holds)
