"""One browser and one server for all tests of pages in a process."""

from collections.abc import Iterator
from pathlib import Path
from time import time_ns

import pytest
from playwright.sync_api import Browser

from tests.advisor.processes import Process, new_process
from tests.advisor.ui.bench import Bench
from tests.advisor.ui.browsing import chromium
from tests.advisor.ui.page_site import Site, site
from tests.advisor.ui.town import sick, town
from tests.advisor.ui.visits import Visit, visiting


@pytest.fixture
def process(tmp_path: Path) -> Process:
    """A serving process that has read nothing yet; pages need no bundle."""
    return new_process(tmp_path / "no-bundle", tmp_path)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, without anything kept."""
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server that asks for tokens, over 10,000 nodes of which some have victims."""
    snapshot = town(10_000, time_ns() // 1000, each=3)
    with site(tmp_path_factory.mktemp("large"), snapshot, sick(snapshot, 120)) as found:
        yield found


@pytest.fixture
def visit(browser: Browser, bench_: Bench) -> Iterator[Visit]:
    """A visit of the bench that a file has."""
    with visiting(browser, bench_.site) as found:
        yield found
