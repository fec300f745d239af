"""Fixtures that every test folder may use: outside parts that are real, started once a run."""

import gc
import importlib
import os
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from advisor.database.engine import migrate, open_store
from cohabit.config.logs import set_up_logs
from ingest.devkafka.broker import Broker, create_topics, running_broker
from ingest.schema.topics import Topic
from tests.advisor.postgres_server import NewDatabase, dropped, running_postgres
from tests.advisor.stores import migrated_file
from tests.s3_server import KEY_ID, S3Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


os.environ.pop("COLUMNS", None)
importlib.import_module("cohabit.terminal.console")
"""Made before a test says how wide its terminal is, so that it is as wide as each of them says."""

set_up_logs("DEBUG")
"""As commands do: structlog's own renderer takes seconds for an exception, since it shows every local variable."""

os.environ |= dict.fromkeys(("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"), "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
"""Each Spark, also those of commands, is quick to start; none of them lasts."""

settings.register_profile("cohabit", derandomize=True, deadline=None, max_examples=30)
settings.register_profile("laws", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("COHABIT_TEST_PROFILE", "cohabit"))


gc.disable()
"""While tests are collected nearly nothing ends."""


def pytest_collection_finish() -> None:
    """What was collected stays to the end: the collector of garbage need not look at it again."""
    gc.freeze()
    gc.set_threshold(700, 10, 100)  # of what is made by tests, as seldom as with all that counted
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with a slow test come first, then those that train: one that came last would have the others wait."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: (item.path not in slow, "models" not in item.path.parts))


TOGETHER = {
    "spark": ("features/jobs/", "features/training/test_s", "docs/test_reading", "ingest/kafka_io/test_secured"),
    "stage": ("advisor/diagnosis/",),
}
"""Files that share a process, since a Spark, or another fixture of a session, takes ten seconds of a processor."""


class ByFile(LoadFileScheduling):  # type: ignore[misc]  # it has no types
    """A process runs whole files; of lives of clusters, that have a lake of each format, whole formats."""

    def _split_scope(self, nodeid: str) -> str:
        path, _, name = nodeid.partition("::")
        for shared, places in TOGETHER.items():
            if path.removeprefix("tests/").startswith(places):
                return shared
        return path + name.partition("[")[2].rpartition("-")[0] * path.startswith("tests/life/")


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByFile:
    """Used instead of `--dist loadfile`."""
    return ByFile(config, log)


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One broker for the whole run; topics are told apart by name."""
    with running_broker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture(scope="session")
def new_topic(kafka: Broker) -> Callable[[str, int], Topic]:
    """Creates a topic that no other test uses: `new_topic("usage", 2)` has two partitions."""
    numbers = count()

    def create(stem: str, partitions: int) -> Topic:
        topic = Topic(f"{stem}-{next(numbers)}", ("cluster", "node"), partitions)
        create_topics(kafka.bootstrap, [topic])
        return topic

    return create


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    """One Spark session for the whole run."""
    from features.jobs.spark.session import spark_session

    with spark_session() as session:
        yield session


@pytest.fixture(scope="session")
def postgres() -> Iterator[NewDatabase]:
    """One PostgreSQL for the whole run; each call makes an empty database and tells its address."""
    with running_postgres() as new_database:
        yield new_database


@pytest.fixture(scope="session")
def migrated_postgres(postgres: NewDatabase) -> Callable[[], str]:
    """Each call makes a database in which all migrations have run: a copy of one."""
    address = postgres()
    with open_store(address) as store:
        migrate(store)
    return lambda: postgres(like=address)


@pytest.fixture
def postgres_address(migrated_postgres: Callable[[], str]) -> Iterator[str]:
    """One of those for a test, after which it is gone: each takes 8 MB and hundreds of files."""
    yield from _until_dropped(migrated_postgres())


@pytest.fixture(params=["sqlite", "postgres"])
def empty_address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Where a store can be made, on each database that there may be."""
    if request.param == "sqlite":
        yield str(tmp_path / "store.sqlite")
    else:
        yield from _until_dropped(request.getfixturevalue("postgres")())


@pytest.fixture(params=["sqlite", "postgres"])
def store_address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A store in which all migrations have run, on each database that there may be."""
    if request.param == "sqlite":
        yield migrated_file(tmp_path / "store.sqlite")
    else:
        yield request.getfixturevalue("postgres_address")


def _until_dropped(address: str) -> Iterator[str]:
    yield address
    dropped(address)


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    """A small S3 server that clients find by the variables of AWS."""
    with S3Server().running() as server:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY_ID)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "any")
        monkeypatch.setenv("AWS_REGION", "us-east-1")
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.port}")
        monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
        yield server
