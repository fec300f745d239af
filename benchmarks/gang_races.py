"""Races: two servers of four workers reserve, bind, release and abandon gangs over one store, and are killed.

Each worker is a process with a gang desk of its own. A killed one is replaced. The store is read all the while: no gang
may hold a part, no slot may be held twice, and none may be held once its time is over.
"""

import os
import signal
import sys
import tempfile
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from multiprocessing import get_context
from multiprocessing.context import SpawnProcess
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from time import monotonic, sleep, time_ns
from typing import NamedTuple

import numpy as np
from sqlalchemy import Engine

from advisor.admission.node_room import NodeRoom, Rooms
from advisor.cluster.pending_pod import PodClass
from advisor.cluster.snapshot import Snapshot
from advisor.database.engine import migrate, open_store, reading
from advisor.errors import AdvisorError
from advisor.gangs.gang_columns import ClassCosts
from advisor.gangs.gang_desk import GangDesk
from advisor.gangs.gang_lifecycle import GangReservation, held
from advisor.gangs.gang_request import GangPlacement, GangRequest, MemberClass
from advisor.gangs.gang_store import grants_of
from benchmarks.gang import Line

SERVERS, WORKERS = 2, 4
NODES, PER_RACK, CORES = 160, 16, 8
RESERVE_US = 1_500_000
"""How long reservations hold: abandoned ones end while others race on."""
TRAIN = PodClass("train", False)
CONTEXT = get_context("spawn")


class Place(NamedTuple):
    """What each worker places by: the store, the cluster, and how many gangs were begun."""

    store: str
    view: Snapshot
    begun: "Synchronized[int]"


def lines(arguments: Namespace, rng: np.random.Generator) -> Iterator[Line]:
    """One race on the store that is named, else on a new SQLite file."""
    from benchmarks.synthetic import cluster

    view = cluster(NODES, 0, rng)
    object.__setattr__(view, "racks", tuple(f"r{at // PER_RACK}" for at in range(NODES)))
    with tempfile.TemporaryDirectory() as folder:
        address = arguments.store or str(Path(folder, "gangs.sqlite"))
        with open_store(address) as engine:
            migrate(engine)
            place = Place(address, view, CONTEXT.Value("q", 0))
            about = {"servers": SERVERS, "workers": WORKERS, "gangs": arguments.gangs, "kill9": arguments.kills}
            yield Line({"store": engine.dialect.name, **about}, _raced(engine, place, arguments, rng))


def desk_of(engine: Engine, view: Snapshot) -> GangDesk:
    """One that sees no pod of its gangs yet: all their bound slots count."""
    rooms = Rooms(view.cluster, 0, tuple(NodeRoom(name, cores=float(CORES), memory_bytes=1e9) for name in view.nodes))
    none = ClassCosts(view.nodes, np.zeros((1, NODES)), np.zeros((1, 1, NODES)))
    return GangDesk(engine, lambda: view, lambda: rooms, lambda _classes, _held: none, lambda: time_ns() // 1000)


def work(place: Place, gangs: int, seed: int) -> None:
    """One worker: the next gang that no one has begun, until all are."""
    rng = np.random.default_rng(seed)
    with open_store(place.store) as engine:
        desk = desk_of(engine, place.view)
        while (number := _next(place.begun)) < gangs:
            try:
                _live(desk, number, rng)
            except AdvisorError as error:
                print(f"gang {number}: {error}", file=sys.stderr, flush=True)


def _next(begun: "Synchronized[int]") -> int:
    with begun.get_lock():
        begun.value += 1
        return begun.value - 1


def _live(desk: GangDesk, number: int, rng: np.random.Generator) -> None:
    """A gang that binds (a fifth), is released (two fifths) or abandoned."""
    count = int(rng.integers(2, 33))
    members = (MemberClass("worker", TRAIN, count, 1.0),)
    request = GangRequest("default", f"g{number}", members, int(rng.integers(1, count + 1)), level="rack")
    made = desk.reserve(request, RESERVE_US).reservation
    fate = rng.random()
    if made is None or fate < 0.4:
        return
    if fate < 0.6:
        desk.renew(made.id, [(f"{made.id}-{at}", slot.node) for at, slot in enumerate(made.slots)][:8])
    else:
        desk.renew(made.id)
        desk.release(made.id)


def _raced(engine: Engine, place: Place, arguments: Namespace, rng: np.random.Generator) -> dict[str, float]:
    seeds = iter(range(10**6))

    def started() -> SpawnProcess:
        process = CONTEXT.Process(target=work, args=(place, arguments.gangs, next(seeds)), daemon=True)
        process.start()
        return process

    workers, killed = [started() for _ in range(SERVERS * WORKERS)], 0
    partial = twice = 0
    began = monotonic()
    while any(one.is_alive() for one in workers):
        now = _read(engine, place.view)
        partial, twice = max(partial, _partial(now)), max(twice, _twice(now, time_ns() // 1000))
        if killed < arguments.kills and place.begun.value >= (killed + 1) * arguments.gangs / (arguments.kills + 1):
            victim = int(rng.integers(len(workers)))
            os.kill(workers[victim].pid or 0, signal.SIGKILL)
            workers[victim].join()
            workers[victim], killed = started(), killed + 1
        sleep(0.02)
    seconds = monotonic() - began
    sleep(RESERVE_US / 1e6)
    desk = desk_of(engine, place.view)
    desk.reservations()
    ended = _read(engine, place.view)
    return {
        "partial_grants": max(partial, _partial(ended)),
        "double_sold_slots": max(twice, _twice(ended, time_ns() // 1000)),
        "leaked_slots": _leaked(desk, ended),
        "kills_missed": arguments.kills - killed,
        "grants_per_s": len(ended) / seconds,
    }


def _read(engine: Engine, view: Snapshot) -> Sequence[GangReservation]:
    """All reservations, as one statement sees them."""
    with reading(engine) as connection:
        return grants_of(connection, view.cluster, time_ns() // 1000).gangs


def _partial(gangs: Sequence[GangReservation]) -> int:
    """Gangs with fewer slots than they need."""
    return sum(len(one.slots) < one.min_count for one in gangs)


def _twice(gangs: Sequence[GangReservation], now_us: int) -> int:
    """Slots held beyond what nodes have."""
    taken = Counter(node for one in gangs for _, node in held(one, now_us, 0))
    return sum(max(count - CORES, 0) for count in taken.values())


def _leaked(desk: GangDesk, ended: Sequence[GangReservation]) -> int:
    """Slots that no bound pod has and that no gang can get."""
    bound = sum(slot.state == "bound" for one in ended for slot in one.slots)
    free = min(NODES * CORES - bound, 1024)
    request = GangRequest("default", "last", (MemberClass("worker", TRAIN, free, 1.0),), 1)
    found = desk.ask(request).placement
    return free - (len(found.seats) if isinstance(found, GangPlacement) else 0)
