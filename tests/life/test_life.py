"""Laws over lives of clusters: what was computed of what exporters report is what really happened.

`make test` has 20 timelines of each format, the same ones each time; `make laws` has 1,000 new ones, and Spark too. A
violation names its format and seed: `draw(seed, "c")` of tests.life.truth is that timeline.
"""

import os
from collections.abc import Iterator

import numpy as np
import pytest
import structlog

from tests.life import laws
from tests.life.lake import SENDERS, world
from tests.life.laws import Computed, Law

pytestmark = pytest.mark.hypothesis
MANY = os.environ.get("COHABIT_TEST_PROFILE") == "laws"
COUNT = 1000 if MANY else 20
FIRST = int(np.random.default_rng().integers(1 << 30)) if MANY else 0
SHOWN = 10
LIVE: tuple[Law, ...] = (laws.live_is_batch, laws.nothing_ended_is_advised_on, laws.who_runs_is_advised_on)
EVERY = 1 if MANY else 4
"""Of so many clusters one is refreshed too."""
HOLDS: tuple[Law, ...] = (laws.everything_is_decoded, laws.billing_is_batch)
WANTED: dict[Law, str] = {
    laws.core_minutes: "static pods have two ids; dead cgroups and replicas are counted as one series",
    laws.billed_core_minutes: "as core_minutes; pods whose deletion was never heard go on",
    laws.one_node_at_a_time: "static pods of one manifest have one id on all nodes",
    laws.node_hours: "the end of a node is not published",
    laws.nothing_ended_is_advised_on: "the end of a node is not published",
    laws.who_runs_is_advised_on: "static pods have two ids",
    laws.nothing_ended_is_computed: "a name without a placement of its own is taken for the pod that had it last",
    laws.live_is_batch: "as nothing_ended_is_computed: live, the name is not known yet",
}
"""Laws that do not hold yet, and why."""


@pytest.fixture(scope="module")
def lives(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Computed]:
    """Computed lives of many clusters in all formats."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    yield Computed(world(SENDERS, range(FIRST, FIRST + COUNT), tmp_path_factory.mktemp("life")))
    structlog.reset_defaults()


@pytest.mark.parametrize("exporter", SENDERS)
@pytest.mark.parametrize(
    "law",
    [
        *HOLDS,
        *(pytest.param(law, marks=pytest.mark.xfail(strict=False, reason=why)) for law, why in WANTED.items()),
    ],
    ids=lambda law: law.__name__,
)
def test_what_is_computed_is_what_happened(lives: Computed, law: Law, exporter: str) -> None:
    of_format = [life for life in lives.world.lives if life.format == exporter][:: EVERY if law in LIVE else 1]
    violations = [line for life in of_format for line in law(life, lives)]

    assert not violations, f"{len(violations)} violations:\n" + "\n".join(violations[:SHOWN])
