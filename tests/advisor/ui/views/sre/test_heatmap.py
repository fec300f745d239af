"""Heat, rows and pages of rows: small enough to count by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest

from advisor.cluster.utilisation import utilisation_percent
from advisor.ui.site.data_source import Seen
from advisor.ui.site.intervals import WIDTH
from advisor.ui.site.paging import sheet
from advisor.ui.site.rendering import duration, percent, plural, ratio, resource
from advisor.ui.views.sre.heatmap import NONE, VERDICTS, counted, heat_of, whole
from advisor.ui.views.sre.node import residents, used_by_all
from advisor.ui.views.sre.overview import Overviews
from advisor.ui.views.sre.victims import drawn
from features.schema.catalog import NAMES
from tests.advisor.clusters import snapshot
from tests.advisor.diagnoses import diagnosis, suspect, told

CLUSTER = snapshot(3, nodes=4, residents=(2, 4), missing=0.0)


def test_of_each_node_the_largest_share_counts() -> None:
    heat = heat_of(CLUSTER, None)

    for row in range(4):
        shares = {name: utilisation_percent(CLUSTER, name)[row] for name in NAMES}
        assert heat.most[row] == max(shares.values())
        assert NAMES[heat.by[row]] == max(shares, key=lambda name: shares[name])
    assert heat.residents.tolist() == np.diff(CLUSTER.first).tolist()
    assert heat.verdict.tolist() == [NONE] * 4


def test_a_node_alone_and_among_all_is_as_full() -> None:
    for row in range(4):
        assert used_by_all(CLUSTER, row) * 100 == pytest.approx(heat_of(CLUSTER, None).used[row])


def test_an_overview_is_made_once_for_what_there_is_to_see() -> None:
    overviews, found = Overviews(), told(diagnosis(node="n2"))

    first = overviews.of(CLUSTER, None)

    assert overviews.of(CLUSTER, None) is first
    assert overviews.of(CLUSTER, found) is not first
    assert [row.name for row in overviews.of(CLUSTER, found).called(" N2 ")] == ["n2"]
    assert overviews.of(CLUSTER, found).rows[0].name == "n2"
    assert {row.platform for row in first.called("small")} == {"small"}


def test_what_is_not_known_is_not_taken_for_nothing() -> None:
    unknown = replace(CLUSTER, node_known=np.zeros(4, np.bool_))

    heat = heat_of(unknown, None)

    assert np.isnan(heat.most).all()
    assert heat.by.tolist() == [-1] * 4
    assert whole(heat.most) == [None] * 4


def test_the_worst_verdict_of_a_node_counts_and_the_slowest_there() -> None:
    found = told(
        diagnosis("a", "n1", 1.4, "no offender"),
        diagnosis("b", "n1", 1.3, "antagonist"),
        diagnosis("c", "n2", math.nan, "self-inflicted"),
        diagnosis("d", "elsewhere", 9.0),
    )

    heat = heat_of(CLUSTER, found)

    assert heat.victims.tolist() == [0, 2, 1, 0]
    assert [VERDICTS[v] if v < NONE else "" for v in heat.verdict] == ["", "antagonist", "self-inflicted", ""]
    assert heat.slowdown[1] == 1.4
    assert math.isnan(heat.slowdown[2])
    assert heat.worst_first().tolist()[:2] == [1, 2]
    assert counted(found) == [("antagonist", 2), ("self-inflicted", 1), ("no offender", 1)]


def test_who_suffers_comes_first_on_a_node_and_then_whose_doing_it_is() -> None:
    first, second, *_ = CLUSTER.containers[CLUSTER.first[2] :]
    found = told(diagnosis(second, "n2", suspects=(suspect(first),)), diagnosis(first, "n1"))

    rows = residents(Seen(CLUSTER, found, ()), CLUSTER, 2, [0])

    assert [one.container for one in rows[:2]] == [second, first]
    assert rows[0].wrong == found.diagnoses[0]
    assert [one.container for one in rows[1].slows] == [second]
    assert rows[1].wrong is None


@pytest.mark.parametrize(("page", "rows", "first"), [(1, [0, 1], 1), (2, [2, 3], 3), (3, [4], 5), (99, [4], 5)])
def test_a_sheet_is_a_part_of_the_rows(page: int, rows: list[int], first: int) -> None:
    found = sheet(range(5), page, 2)

    assert (list(found.rows), found.first, found.pages, found.total) == (rows, first, 3, 5)


def test_nothing_is_a_sheet_too() -> None:
    assert (sheet([], 1, 2).pages, sheet([], 1, 2).first) == (1, 0)


def test_intervals_share_a_scale_that_begins_at_nothing() -> None:
    one = diagnosis(suspects=(suspect(added=0.6), replace(suspect(added=0.02), low=-0.1), suspect(added=math.nan)))

    wide, narrow, unknown = (interval for _, interval in drawn(one))

    assert wide.low + wide.wide == pytest.approx(WIDTH)
    assert wide.middle == pytest.approx(WIDTH * 0.6 / 0.68)
    assert narrow.low == 0.0
    assert (unknown.low, unknown.wide, unknown.middle) == (0.0, 0.0, 0.0)


def test_numbers_are_told_as_people_read_them() -> None:
    assert [ratio(1.256), ratio(math.nan)] == ["1.26", "–"]
    assert [percent(v) for v in (0.0, 0.004, 0.0994, 0.0996, 1.2, math.nan)] == [
        "0%",
        "0.4%",
        "9.9%",
        "10%",
        "120%",
        "–",
    ]
    assert [duration(s) for s in (5, 119, 120, 7200, 200_000)] == ["5 s", "119 s", "2 min", "2 h", "2 d"]
    assert [plural(1, "node"), plural(2000, "node")] == ["1 node", "2,000 nodes"]
    assert [resource("cpu elsewhere"), resource("memory_bandwidth"), resource("new")] == [
        "CPU elsewhere",
        "memory bandwidth",
        "new",
    ]
