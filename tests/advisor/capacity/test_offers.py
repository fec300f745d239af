"""Offers: never more than a node has, less with every claim, nothing where too little is known."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.capacity.offer_export import EXPORTS, prometheus_text
from advisor.capacity.offer_file import FILE, NewestOffers, OfferReport, stands_s, write_offers
from advisor.capacity.offers import (
    NodeOffer,
    Resource,
    Revocable,
    Supply,
    corrections,
    in_all,
    limited_by_interference,
    offered,
)
from advisor.errors import Unavailable

SHARE = st.floats(0, 2)
HOUR_US = 3600 * 10**6


def supply(
    peak: float = 0.4, young: float = 1.0, booked: float = 2.0, cap: float = np.inf, capacity: float = 16.0
) -> Supply:
    known, left, requests, held, most = (np.array([value]) for value in (capacity, peak, young, booked, cap))
    return Supply(known, left, requests, held, most, reserve=0.05)


def offer(node: str = "n0", resource: Resource = "cpu", horizon_s: int = 3600, **changed: Any) -> NodeOffer:
    usual = NodeOffer(node, "std", resource, horizon_s, 0.05, 3.25, 5.2505, 7.0, 16.0, 2.0, "peak", "left")
    return replace(usual, **changed)


def test_an_offer_is_what_peak_requests_and_reserve_leave() -> None:
    assert offered(supply())[0] == pytest.approx(16 * 0.55 - 1 - 2)
    assert in_all(supply())[0] == pytest.approx(16 * 0.55 - 1)


def test_interference_limits_what_is_added_and_says_so() -> None:
    assert offered(supply(cap=1.5))[0] == 1.5
    assert in_all(supply(cap=1.5))[0] == 3.5
    assert limited_by_interference(supply(cap=1.5))[0]
    assert not limited_by_interference(supply())[0]


@pytest.mark.parametrize("unknown", ["peak", "young", "capacity"])
def test_what_is_not_known_offers_nothing(unknown: str) -> None:
    assert offered(supply(**{unknown: np.nan}))[0] == 0
    assert in_all(supply(**{unknown: np.nan}))[0] == 0


@given(SHARE, st.floats(0, 32), st.floats(0, 32), st.floats(0, 32), SHARE)
def test_offers_lie_between_nothing_and_the_node_and_fall_with_every_claim(
    peak: float, young: float, booked: float, cap: float, more: float
) -> None:
    before = offered(supply(peak, young, booked, cap))[0]

    assert 0 <= before <= 16
    assert offered(supply(peak + more, young, booked, cap))[0] <= before
    assert offered(supply(peak, young + more, booked, cap))[0] <= before
    assert offered(supply(peak, young, booked + more, cap))[0] <= before
    assert offered(supply(peak, young, booked, max(0, cap - more)))[0] <= before


def test_who_loses_least_work_for_what_it_frees_gives_back_first_one_on_each_node() -> None:
    held = [Revocable("old", "a", 2.0, 900.0), Revocable("new", "a", 1.0, 10.0), Revocable("b-1", "b", 4.0, 0.0)]

    found = corrections("cpu", {"a": 0.5, "b": 6.0, "c": 1.0, "d": -1.0}, held)

    assert [(one.node, one.container, one.action, one.frees) for one in found] == [
        ("a", "new", "throttle", 0.5),
        ("b", "b-1", "throttle", 4.0),
    ]
    assert corrections("memory", {"a": 0.5}, held)[0].action == "evict"


def test_a_report_is_read_as_it_was_written_and_again_when_it_changed(tmp_path: Path) -> None:
    newest = NewestOffers(tmp_path)
    assert newest.report() is None
    first = OfferReport("c", 10 * HOUR_US, 10 * HOUR_US, (offer(), offer(peak=None)))

    write_offers(tmp_path, first)

    assert newest.report() == first
    assert newest.report() is newest.report()
    write_offers(tmp_path, OfferReport("c", 11 * HOUR_US, 11 * HOUR_US, (offer("n1"),)))
    assert newest.report() != first


def test_an_old_offer_counts_as_none_and_another_cluster_s_as_unknown(tmp_path: Path) -> None:
    newest = NewestOffers(tmp_path)
    write_offers(tmp_path, OfferReport("c", 0, 0, (offer(), offer(horizon_s=300), offer(resource="memory"))))

    assert newest.cores("c", stands_s(3600) * 10**6) == {"n0": (3.25, 5.2505)}
    assert newest.cores("c", stands_s(3600) * 10**6 + 1) == {"n0": (0.0, 0.0)}
    assert newest.cores("other", 0) is None
    assert (stands_s(300), stands_s(3600), stands_s(86_400)) == (600, 1800, 3600)


def test_offers_of_a_clock_ahead_are_none_and_a_report_says_what_stands(tmp_path: Path) -> None:
    report = OfferReport("c", 10 * HOUR_US, 10 * HOUR_US, (offer(horizon_s=300), offer()))

    assert report.stale(3600, 9 * HOUR_US)
    assert not report.stale(3600, 10 * HOUR_US - 10**6)
    later = report.standing(10 * HOUR_US + 20 * 60 * 10**6)
    assert [(one.offered, one.bound_by) for one in later.offers] == [(0.0, "stale"), (3.25, "peak")]
    assert "older than 10 minutes" in later.offers[0].reason


@pytest.mark.parametrize("changed", [{"at_us": 1 << 60}, {"at_us": -1}, {"offers": (offer(offered=-1.0),)}])
def test_a_file_with_what_cannot_be_is_refused(tmp_path: Path, changed: dict[str, Any]) -> None:
    write_offers(tmp_path, replace(OfferReport("c", 0, 0, ()), **changed))

    with pytest.raises(Unavailable, match="cannot be"):
        NewestOffers(tmp_path).report()


@pytest.mark.parametrize("content", [b"", b"{}", b'{"format":9}', b'{"format":1,"report":{}}', b"[" * 5000, b"\xff"])
def test_a_broken_file_is_refused_with_the_remedy(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE).write_bytes(content)

    with pytest.raises(Unavailable, match="capacity headroom --publish"):
        NewestOffers(tmp_path).report()
    assert NewestOffers(tmp_path).cores("c", 0) is None


def test_koordinator_gets_whole_milli_cores_of_all_that_best_effort_may_hold() -> None:
    offers = [offer(), offer(resource="memory", total=5e9), offer(horizon_s=86_400, total=1.0), offer(horizon_s=300)]

    [patch] = EXPORTS["koordinator"](offers)

    values = {one["path"]: one["value"] for one in patch["patch"]}
    assert values == {
        f"/status/{where}/kubernetes.io~1{name}": value
        for where in ("capacity", "allocatable")
        for name, value in (("batch-cpu", "5250"), ("batch-memory", "5000000000"), ("mid-cpu", "1000"))
    }
    assert (patch["node"], patch["type"], patch["subresource"]) == ("n0", "json", "status")


def test_extended_resources_and_annotations_have_names_of_our_own() -> None:
    [extended] = EXPORTS["extended"]([offer()])
    [annotated] = EXPORTS["annotations"]([offer(), offer(horizon_s=300, offered=3.9999999)])

    assert {one["path"] for one in extended["patch"]} == {
        "/status/capacity/cohabit.io~1revocable-cpu",
        "/status/allocatable/cohabit.io~1revocable-cpu",
    }
    named = annotated["patch"]["metadata"]["annotations"]
    assert named == {"cohabit.io/headroom-cpu-3600s": "3.250", "cohabit.io/headroom-cpu-300s": "3.999"}
    assert json.dumps(annotated)


def test_metrics_are_sums_by_pool_and_count_what_is_not_known() -> None:
    text = prometheus_text(
        "c", 5_000_000, [offer(), offer("n1"), offer("n2", offered=0.0, peak=None, bound_by="stale")]
    )

    assert 'cohabit_headroom_measured_timestamp_seconds{cluster="c"} 5.000' in text
    labels = '{cluster="c",pool="std",resource="cpu",horizon_s="3600"}'
    assert f"cohabit_headroom_offered{labels} 6.5" in text
    assert f"cohabit_headroom_nodes{labels} 2" in text
    assert f"cohabit_headroom_nodes_unknown{labels} 1" in text
