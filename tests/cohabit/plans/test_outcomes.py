"""Concluding: what plans saved is told by their own cluster, whoever else is in the lake."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import cast

import numpy as np
import pyarrow as pa

from advisor.plans.rules.plan_record import Decided, Proposal
from cohabit.plans.outcomes import heirs_of, seen_of
from ingest.lake.tables import Lake
from tests.advisor.plans.made import NOW_US, plan, step, who

AT = datetime.fromtimestamp(NOW_US / 1e6, UTC)


class Held:
    """A lake in which each table has the same rows at all times."""

    def __init__(self, **tables: pa.Table) -> None:
        self.tables = tables

    def read(self, table: str, *_: object) -> pa.Table:
        return self.tables[table]


def rows(**columns: object) -> pa.Table:
    """A row of cluster `c` and one of `other`, alike but for what is given as a list."""
    both = {name: value if isinstance(value, list) else [value] * 2 for name, value in columns.items()}
    return pa.table({"cluster": ["c", "other"], **both})


def test_nodes_of_another_cluster_with_the_same_name_do_not_count() -> None:
    labels = rows(node="n0", container=["web", "cache"], qos="LS", window_end=AT, log_slowdown=[0.0, np.log(3.0)])

    seen = seen_of(cast("Lake", Held(labels=labels)), "c", 0, NOW_US)

    assert {uid: one.slowdown.tolist() for uid, one in seen.items()} == {"web": [1.0]}


def test_where_nothing_was_measured_nobody_was_seen() -> None:
    labels = rows(node="n0", container="web", qos="LS", window_end=AT, log_slowdown=0.0)

    assert seen_of(cast("Lake", Held(labels=labels.slice(0, 0))), "c", 0, NOW_US) == {}


def test_who_came_on_a_node_of_another_cluster_is_nobodys_heir() -> None:
    moved = replace(step(1), who=who("web-1"), target="n1")
    of = Proposal(plan(of=(moved,)), "exported", 3, (Decided(1, "approved"),), "", NOW_US)
    came = rows(event="add", ts=AT, container=["web-2", "web-9"], node=["n7", "n1"], app="web", team="blue")

    assert heirs_of(cast("Lake", Held(placements=came)), of) == {}
    own = came.set_column(0, "cluster", pa.array(["other", "c"]))
    assert heirs_of(cast("Lake", Held(placements=own)), of) == {"web-1": "web-9"}
