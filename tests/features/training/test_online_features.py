"""Live: the view of now, by the same kernels as training rows."""

import numpy as np
import pyarrow as pa

from features.contention.node_state import Facts
from features.schema.tables import PROFILES
from features.training.online_features import LiveView, live_view, state_by
from tests.features.rows import at, nodes, placements, usage

NO_PROFILES = PROFILES.schema.empty_table()


def view_of(now_us: int, seen: pa.Table, facts: Facts) -> LiveView:
    return live_view(now_us, state_by(now_us, seen, facts), facts, NO_PROFILES)


def now(second: float) -> int:
    return int(at(second).timestamp() * 1e6)


def test_residents_show_their_own_newest_minute() -> None:
    seen = usage({"container": "a", "ts": 60, "cpu_cores": 1.0}, {"container": "a", "ts": 120, "cpu_cores": 2.0})

    view = view_of(now(135), seen, Facts(nodes({}), placements()))

    assert view.use[:, 0].tolist() == [2.0]
    assert view.seen_us.tolist() == [now(120)]


def test_a_minute_that_still_grows_counts_as_far_as_it_has_arrived() -> None:
    seen = usage(
        {"container": "a", "ts": 60, "cpu_cores": 1.0},
        {"container": "a", "ts": 90, "cpu_cores": 2.0},
        {"container": "a", "ts": 120, "cpu_cores": 4.0},
    )

    assert view_of(now(95), seen, Facts(nodes({}), placements())).use[:, 0].tolist() == [2.0]
    assert view_of(now(125), seen, Facts(nodes({}), placements())).use[:, 0].tolist() == [3.0]


def test_what_has_not_arrived_is_not_seen() -> None:
    seen = usage(
        {"container": "a", "ts": 60, "cpu_cores": 1.0},
        {"container": "a", "ts": 120, "cpu_cores": 2.0, "arrived_at": at(140)},
    )

    assert view_of(now(135), seen, Facts(nodes({}), placements())).use[:, 0].tolist() == [1.0]


def test_a_node_that_went_silent_has_no_residents_but_those_placed() -> None:
    facts = Facts(nodes({"node": "n"}, {"node": "m"}), placements({"container": "p", "node": "m"}))
    seen = usage({"container": "a", "ts": 60, "cpu_cores": 1.0})

    view = view_of(now(600), seen, facts)

    assert view.residents["container"].to_pylist() == ["p"]
    assert np.isnan(view.use).all()
    assert view.nodes["node"].to_pylist() == ["m", "n"]


def test_a_silent_node_is_not_taken_for_an_empty_one() -> None:
    seen = usage({"container": "a", "ts": 60, "cpu_cores": 1.0})
    both = nodes({"node": "n"}, {"node": "never-seen"})

    def known(second: float, *placed: dict[str, object]) -> list[bool]:
        view = view_of(now(second), seen, Facts(both, placements(*placed)))
        return [bool(known) for known in view.known]

    assert known(100) == [True, False]
    assert known(600) == [False, False]
    assert known(600, {"container": "p", "node": "n"}) == [True, True]
