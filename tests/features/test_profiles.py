"""Profiles: whose team an app is, as last told by each time."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from rows import at, nodes, placements, usage

from features.apps import profiles_of
from features.node_state import Facts, node_state


def teams(told: Sequence[tuple[int, str, str | None]], *seconds: int) -> list[tuple[str, str | None]]:
    """Platform and team of each profile at some times, of an app whose minutes at (second, node) told a team."""
    rows: list[dict[str, object]] = [
        {"node": node, "app": "web", "team": team, "ts": second} for second, node, team in told
    ]
    facts = Facts(nodes({"node": "n0", "platform": "p"}, {"node": "n1", "platform": "q"}), placements())
    times = np.array([round(at(s).timestamp() * 1e6) for s in seconds])
    found: pa.Table = profiles_of(node_state(usage(*rows), facts), times)
    ordered = found.sort_by([("as_of", "ascending"), ("platform", "ascending")])
    return list(zip(ordered["platform"].to_pylist(), ordered["team"].to_pylist(), strict=True))


def test_a_team_is_the_one_told_last_by_then() -> None:
    assert teams([(30, "n0", "red"), (630, "n0", "blue")], 300, 900) == [("p", "red"), ("p", "blue")]


def test_a_team_told_on_one_platform_is_known_on_all() -> None:
    assert teams([(30, "n0", None), (90, "n1", "red")], 900) == [("p", "red"), ("q", "red")]


def test_a_minute_that_tells_no_team_takes_none_away() -> None:
    assert teams([(30, "n0", "red"), (630, "n0", None)], 900) == [("p", "red")]
    assert teams([(30, "n0", None)], 900) == [("p", None)]
