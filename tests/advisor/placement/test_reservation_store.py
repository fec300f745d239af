"""Leases in SQL, and who reads them: the same on SQLite and PostgreSQL; nothing fails where there is no store."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from queue import Queue
from time import monotonic, sleep

import pytest
from prometheus_client import CollectorRegistry
from sqlalchemy import Engine, event, text

from advisor.database.engine import migrate, open_store, writing
from advisor.placement import reservation_store as lease_store
from advisor.placement.reservation_match import Lease
from advisor.placement.reservation_store import add_leases, open_leases, withdraw
from advisor.placement.reservations import Leases
from cohabit.server.reservation_poller import LeaseReading
from tests.advisor.steered import lease

WITHIN_S = 20.0


@pytest.fixture
def store(store_address: str) -> Iterator[Engine]:
    with open_store(store_address) as engine:
        migrate(engine)
        yield engine


def add(store: Engine, *leases: Lease) -> None:
    with writing(store) as connection:
        add_leases(connection, leases)


def test_leases_come_back_as_they_were_written(store: Engine) -> None:
    written = [
        lease("l1", "n1", expires_us=10, template_hash="abc"),
        lease("é'; DROP TABLE leases", "n2", expires_us=11),
    ]
    add(store, *written)

    assert open_leases(store, "c", 9) == written


def test_expired_leases_and_those_of_other_clusters_are_not_open(store: Engine) -> None:
    add(store, lease("l1", "n1", expires_us=5), lease("l2", "n2", expires_us=6), lease("l3", "n3", cluster="d"))

    assert [one.lease for one in open_leases(store, "c", 5)] == ["l2"]


def test_a_lease_that_is_written_again_is_there_once_and_lasts_as_long_as_said_last(store: Engine) -> None:
    add(store, lease("l1", "n1", expires_us=5))
    add(store, lease("l1", "n1", expires_us=50))

    assert [one.expires_us for one in open_leases(store, "c", 0)] == [50]


def test_a_withdrawn_proposal_steers_nobody(store: Engine) -> None:
    add(store, lease("l1", "n1"), lease("l2", "n2"), lease("l3", "n3", proposal="q"))

    with writing(store) as connection:
        assert withdraw(connection, "p") == 2

    assert [one.lease for one in open_leases(store, "c", 0)] == ["l3"]


def test_no_leases_are_written_by_one_statement_less(store: Engine) -> None:
    add(store)

    assert open_leases(store, "c", 0) == []


def test_of_too_many_the_first_to_expire_are_read(store: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_store, "MOST_OPEN", 2)
    add(store, *(lease(f"l{i}", "n1", expires_us=10 - i) for i in range(4)))

    assert [one.lease for one in open_leases(store, "c", 0)] == ["l3", "l2"]


def test_what_is_written_beside_leases_counts_with_them_or_neither_does(store: Engine) -> None:
    def halfway() -> None:
        with writing(store) as connection:
            add_leases(connection, [lease("l1", "n1")])
            raise InterruptedError

    with pytest.raises(InterruptedError):
        halfway()

    assert open_leases(store, "c", 0) == []


def until(holds: Callable[[], bool]) -> None:
    deadline = monotonic() + WITHIN_S
    while not holds():
        assert monotonic() < deadline
        sleep(0.02)


def reading(address: str, metrics: CollectorRegistry, take: Callable[[Sequence[Lease]], None]) -> LeaseReading:
    return LeaseReading(address, lambda: "c", lambda: 0, take, metrics)


@pytest.fixture
def metrics() -> CollectorRegistry:
    return CollectorRegistry()


def failures(metrics: CollectorRegistry) -> float:
    return metrics.get_sample_value("cohabit_lease_readings_failed_total") or 0.0


def test_what_is_written_and_withdrawn_is_read_within_a_moment(
    store: Engine, store_address: str, metrics: CollectorRegistry
) -> None:
    read = Queue[Sequence[Lease]]()
    one = lease("l1", "n1")
    with closing(reading(store_address, metrics, read.put)):
        add(store, one)
        assert read.get(timeout=WITHIN_S) == [one]
        with writing(store) as connection:
            withdraw(connection, "p")
        assert read.get(timeout=WITHIN_S) == []

    assert failures(metrics) == 0


def test_a_store_that_fails_leaves_what_was_read_and_is_counted_until_it_is_back(
    store: Engine, store_address: str, metrics: CollectorRegistry
) -> None:
    add(store, lease("l1", "n1"))
    leases = Leases(metrics=metrics)
    with closing(reading(store_address, metrics, leases.take)):
        until(lambda: leases.open() == 1)
        with writing(store) as connection:
            connection.execute(text("ALTER TABLE leases RENAME TO away"))
        until(lambda: failures(metrics) >= 1)
        assert leases.open() == 1
        with writing(store) as connection:
            connection.execute(text("ALTER TABLE away RENAME TO leases"))
        add(store, lease("l2", "n2"))
        until(lambda: leases.open() == 2)


def test_a_store_that_is_made_later_is_read_then(tmp_path: Path, metrics: CollectorRegistry) -> None:
    read = Queue[Sequence[Lease]]()
    address = str(tmp_path / "store.sqlite")
    with closing(reading(address, metrics, read.put)), open_store(address) as store:
        migrate(store)
        add(store, lease("l1", "n1"))
        assert [one.lease for one in read.get(timeout=WITHIN_S)] == ["l1"]

    assert failures(metrics) == 0


@pytest.mark.parametrize("address", ["", "nowhere/store.sqlite"])
def test_without_a_store_nothing_is_read_and_nothing_fails(address: str, metrics: CollectorRegistry) -> None:
    read = list[Sequence[Lease]]()
    with closing(reading(address, metrics, read.append)):
        pass

    assert (read, failures(metrics)) == ([], 0)


def test_a_store_without_migrations_has_no_leases_and_is_no_failure(
    store_address: str, metrics: CollectorRegistry
) -> None:
    with open_store(store_address) as store:
        migrate(store)
        with writing(store) as connection:
            connection.execute(text("DELETE FROM alembic_version"))
        asked = Queue[None]()
        event.listen(Engine, "connect", heard := lambda *_: asked.put(None))
        try:
            with closing(reading(store_address, metrics, lambda _: None)):
                asked.get(timeout=WITHIN_S)
        finally:
            event.remove(Engine, "connect", heard)

    assert failures(metrics) == 0


@pytest.mark.parametrize("address", ["mysql://me:secret@db/x", "postgresql://me:secret@127.0.0.1:1/x"])
def test_a_store_that_cannot_be_reached_is_counted(address: str, metrics: CollectorRegistry) -> None:
    with closing(reading(address, metrics, lambda _: None)):
        until(lambda: failures(metrics) >= 1)
