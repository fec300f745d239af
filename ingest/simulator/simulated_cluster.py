"""The simulated cluster: `step` moves time by one interval, applies actions, and returns what was seen and true.

Kernel: same state, actions and generator, same answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ingest.simulator.law import PLATFORMS, Floats, Ints, Law, counters

DAY_S = 6 * 3600.0
"""Length of the simulated day; short, so that a few hours show a whole cycle."""


@dataclass(frozen=True, slots=True)
class Container:
    """One running container; app and node are numbers."""

    uid: str
    app: int
    node: int
    version: int
    born_s: float


@dataclass(frozen=True, slots=True)
class State:
    """The whole cluster at one time.

    Args:
        time_s: seconds since 1970.
        platform: (nodes,) platform of each node.
        containers: who runs where.
        best_effort: (apps,) whether the app is BE.
        born: how many containers were ever started; names the next one.
    """

    time_s: float
    platform: Ints
    containers: tuple[Container, ...]
    best_effort: tuple[bool, ...]
    born: int


@dataclass(frozen=True, slots=True)
class Place:
    """Start a container of an app on a node."""

    app: int
    node: int
    version: int = 1


@dataclass(frozen=True, slots=True)
class Remove:
    """Stop a container."""

    uid: str


@dataclass(frozen=True, slots=True)
class Deploy:
    """Give every container of an app a new image version."""

    app: int
    version: int


Action = Place | Remove | Deploy


@dataclass(frozen=True, slots=True)
class Event:
    """A placement event: add, change or delete of a container."""

    kind: str
    container: Container


@dataclass(frozen=True, slots=True)
class Records:
    """What the cluster showed in one interval: placement events, and (n,) signals of the running containers.

    `waited` is what all tasks of (nodes,) nodes waited for CPU, s/s, where exporters count that.
    """

    time_s: float
    events: tuple[Event, ...]
    containers: tuple[Container, ...]
    signals: dict[str, Floats]
    waited: Floats | None = None


@dataclass(frozen=True, slots=True)
class Truth:
    """What really happened in one interval, (n,) true slowdowns of the running containers. Never shown to training."""

    time_s: float
    containers: tuple[Container, ...]
    slowdown: Floats


def step(
    state: State, actions: Sequence[Action], *, law: Law, interval_s: float, rng: np.random.Generator
) -> tuple[State, Records, Truth]:
    """Apply the actions, let one interval pass, and report it.

    Args:
        state: the cluster before.
        actions: placements, removals and deploys at the interval's start.
        law: how containers slow each other down.
        interval_s: length of the interval.
        rng: randomness of counters.

    Returns:
        The cluster after, what was seen, and what was true.
    """
    state, events = apply(state, actions)
    now_s = state.time_s + interval_s
    state = replace(state, time_s=now_s)
    running = state.containers
    app = np.array([c.app for c in running], np.int64)
    node = np.array([c.node for c in running], np.int64)
    load = load_at(app, now_s)
    slowdown = law.slowdown(app, neighbour_load(app, node, load, len(state.best_effort)), load, state.platform[node])
    signals = counters(law.apps, app, load, slowdown=slowdown, platform=state.platform[node], rng=rng)
    return state, Records(now_s, events, running, signals), Truth(now_s, running, slowdown)


def uid_of(born: int) -> str:
    """Uid of the container that is started after so many others."""
    return f"c{born:06d}"


def neighbour_load(app: Ints, node: Ints, load: Floats, apps: int) -> Floats:
    """(n, apps) containers of each app on the same node, counted by load, the container itself left out."""
    by_node = np.zeros((node.max(initial=-1) + 1, apps))
    np.add.at(by_node, (node, app), load)
    result = by_node[node]
    result[np.arange(len(app)), app] -= load
    return np.maximum(result, 0.0)


def load_at(app: Ints, time_s: float | Floats) -> Floats:
    """(n,) load of each app as a share of its peak, at one time or at (n,): a day's wave, its phase by app."""
    wave: Floats = 0.6 + 0.35 * np.sin(2 * np.pi * (time_s / DAY_S + app * 0.381966))
    return wave


def apply(state: State, actions: Sequence[Action]) -> tuple[State, tuple[Event, ...]]:
    """The cluster after the actions, and the placement events they caused."""
    running = {c.uid: c for c in state.containers}
    events: list[Event] = []
    born = state.born
    for action in actions:
        match action:
            case Place(app, node, version):
                container = Container(uid_of(born), app, node, version, state.time_s)
                born += 1
                running[container.uid] = container
                events.append(Event("add", container))
            case Remove(uid):
                events.append(Event("delete", running.pop(uid)))
            case Deploy(app, version):
                changed = {u: replace(c, version=version) for u, c in running.items() if c.app == app}
                running |= changed
                events.extend(Event("change", c) for c in changed.values())
    return replace(state, containers=tuple(running.values()), born=born), tuple(events)


def empty_cluster(nodes: int, best_effort: Sequence[bool], start_s: float) -> State:
    """A cluster without containers; platforms take turns."""
    platform = np.arange(nodes, dtype=np.int64) % len(PLATFORMS)
    return State(start_s, platform, (), tuple(best_effort), 0)


def crowding(state: State) -> Floats:
    """(nodes,) relative wish to place on each node: some stay nearly empty, some get crowded; means 1."""
    return np.linspace(0.1, 1.9, len(state.platform))


def fill(state: State, per_node: int, rng: np.random.Generator, apps: int) -> list[Action]:
    """Placements that put about `per_node` containers of random ones of `apps` on every node, unevenly."""
    counts = np.round(per_node * crowding(state)).astype(int)
    return [Place(int(rng.integers(apps)), node) for node, count in enumerate(counts) for _ in range(count)]


def churn(state: State, rate: float, rng: np.random.Generator, apps: int) -> list[Action]:
    """Replace each container of the first `apps` with probability `rate` by one elsewhere; now and then a deploy."""
    gone = [c for c in state.containers if rng.random() < rate and c.app < apps]
    weight = crowding(state) / crowding(state).sum()
    nodes = rng.choice(len(weight), len(gone), p=weight)
    starts: list[Action] = [Place(int(rng.integers(apps)), int(node)) for node in nodes]
    deploys: list[Action] = [Deploy(int(rng.integers(apps)), int(state.time_s))] if rng.random() < rate else []
    return [*(Remove(c.uid) for c in gone), *starts, *deploys]
