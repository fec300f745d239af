"""Replies that leave: for any names and any table, both schedulers' clients decode them, as they were meant."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.api.scheduler.volcano import reply_to
from advisor.cluster.assumed_pod_load import Booked
from advisor.cluster.pending_pod import PodClass
from advisor.placement.encoded_scores import Replies, spell, spelled_reply
from advisor.scoring.score_table import ScoreTable
from e2e.volcano.twin import host_priorities, node_scores

WEB = PodClass("web", best_effort=False)
NAMES = st.text(st.characters(codec="utf-8"), max_size=8) | st.sampled_from(['"', "\\", "\x00", "\u2028", "<&>", ""])
POINTS = st.integers(0, 10)


@st.composite
def tables(draw: st.DrawFn) -> ScoreTable:
    """Any nodes, any points, known or not."""
    nodes = tuple(draw(st.lists(NAMES, min_size=1, max_size=8, unique=True)))
    points = np.array(draw(st.lists(POINTS, min_size=len(nodes), max_size=len(nodes))), np.uint8).reshape(1, -1)
    known = np.array(draw(st.lists(st.booleans(), min_size=len(nodes), max_size=len(nodes))), np.bool_)
    return ScoreTable(
        version=1,
        as_of_us=0,
        bundle="any",
        nodes=nodes,
        known=known,
        classes=(WEB,),
        points=points,
        cost=np.where(points, 1 - points / 11, 9.0).astype(np.float32),
        platform=np.zeros(len(nodes), np.int16),
        steps=np.full((3, 1, 1), draw(st.floats(0, 4)), np.float32),
    )


@st.composite
def answers(draw: st.DrawFn) -> tuple[bytes, list[str]]:
    """A reply of a table, of which some nodes have newcomers on their way, and the names offered."""
    table = draw(tables())
    replies = Replies(table, spell(table.nodes))
    known = st.sampled_from(table.nodes)
    for number, node in enumerate(draw(st.lists(known, max_size=3))):
        replies.arrive(Booked(str(number), node, WEB, 0))
    offered = draw(st.lists(known | NAMES, max_size=12))
    rows = replies.rows(offered)
    return replies.reply(offered, rows, replies.points(WEB, rows)), offered


@given(answer=answers())
@settings(max_examples=300, deadline=None)
def test_kube_scheduler_decodes_every_reply_of_a_table(answer: tuple[bytes, list[str]]) -> None:
    reply, offered = answer

    said = host_priorities(reply)

    assert [host for host, _ in said] == offered
    assert all(0 <= score <= 10 for _, score in said)


@given(offered=st.lists(NAMES, max_size=12), points=st.lists(POINTS, min_size=12, max_size=12))
@settings(max_examples=200, deadline=None)
def test_kube_scheduler_decodes_every_reply_without_a_table(offered: list[str], points: list[int]) -> None:
    reply = spelled_reply(offered, points[: len(offered)])

    assert host_priorities(reply) == list(zip(offered, points, strict=False))


@given(answer=answers())
@settings(max_examples=300, deadline=None)
def test_volcano_decodes_ten_times_what_kube_scheduler_does(answer: tuple[bytes, list[str]]) -> None:
    reply, offered = answer

    scores = node_scores(reply_to(reply))

    assert scores == {host: 10.0 * score for host, score in host_priorities(reply)}
    assert scores.keys() == set(offered)
