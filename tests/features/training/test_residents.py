"""Residents: who was on a node when a decision was taken, against a naive loop over events."""

from dataclasses import dataclass
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from features.contention.node_state import Facts, node_state
from features.schema.tables import PROFILES
from features.training.residents import Sources, residents
from tests.features.rows import at, nodes, placements, usage


@dataclass(frozen=True)
class Told:
    """A placement event: what, of whom, where, when it happened and how much later it arrived."""

    event: str
    container: str
    node: str
    second: int
    lag: int


told = st.builds(
    Told,
    event=st.sampled_from(["add", "change", "delete"]),
    container=st.sampled_from(["a", "b", "c"]),
    node=st.sampled_from(["m", "n"]),
    second=st.integers(0, 40),
    lag=st.integers(0, 30),
)


def who(seconds: list[int], events: pa.Table, seen: pa.Table) -> dict[tuple[str, int], list[str]]:
    """Residents of both nodes at each second."""
    asked = [(node, second) for node in ("m", "n") for second in seconds]
    at_node = [{"cluster": "c", "node": node, "time": at(second)} for node, second in asked]
    decisions = pa.Table.from_pylist(at_node)
    facts = Facts(nodes({"node": "m"}, {"node": "n"}), events)
    sources = Sources(node_state(seen, facts), facts.nodes, events, PROFILES.schema.empty_table())
    found: dict[tuple[str, int], list[str]] = {place: [] for place in asked}
    for row in residents(decisions, sources).to_pylist():
        found[asked[row["decision"]]].append(row["container"])
    return {place: sorted(names) for place, names in found.items()}


def standing(events: list[Told], node: str, second: int) -> list[str]:
    """Whose newest event that was known by then put it on the node."""
    known = [(e.second, e.second + e.lag, i, e) for i, e in enumerate(events) if e.second + e.lag <= second]
    newest = {e.container: e for *_, e in sorted(known, key=lambda row: row[:3])}
    return sorted(name for name, e in newest.items() if e.event != "delete" and e.node == node)


@given(events=st.lists(told, max_size=8), order=st.randoms(use_true_random=False))
def test_residents_are_those_whose_newest_known_event_put_them_there(events: list[Told], order: Random) -> None:
    rows: list[dict[str, object]] = [
        {"event": e.event, "container": e.container, "node": e.node, "ts": e.second, "arrived_at": at(e.second + e.lag)}
        for e in events
    ]
    numbered = [{**row, "offset": i} for i, row in enumerate(rows)]
    order.shuffle(numbered)

    for minute in (10, 35, 59):
        found = who([minute], placements(*numbered), usage())
        assert found == {(node, minute): standing(events, node, minute) for node in ("m", "n")}


@pytest.mark.parametrize("ended", [{"event": "delete"}, {"event": "change", "node": "m"}], ids=["deleted", "moved"])
def test_a_node_whose_every_placement_has_ended_is_empty_whoever_was_seen_there(ended: dict[str, object]) -> None:
    events = placements({"container": "a"}, {"container": "a", "ts": 100, **ended})
    seen = usage({"container": "a", "ts": 60, "cpu_cores": 1.0}, {"container": "ghost", "ts": 60, "cpu_cores": 1.0})

    assert who([120], events, seen)["n", 120] == []


def test_a_node_that_nobody_tells_of_has_whoever_was_seen_in_the_last_minutes() -> None:
    events = placements({"container": "a", "node": "m"}, {"container": "b", "ts": 200})
    seen = usage({"container": "s", "ts": 60, "cpu_cores": 1.0})

    found = who([119, 179, 239, 300], events, seen)

    assert [found["n", second] for second in (119, 179, 239, 300)] == [["s"], ["s"], ["b"], ["b"]]
    assert found["m", 119] == ["a"]
