"""Disruption budgets: what a cluster's budgets allow reaches the placements of the pods that they select."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from time import monotonic, sleep
from typing import Any

import pytest
import structlog
from prometheus_client import CollectorRegistry

from cohabit.config.logs import set_up_logs
from ingest.kube import watcher
from ingest.kube.api_types import LabelSelector
from ingest.kube.pod_disruption import budget_of, by_namespace, columns_of
from ingest.kube.watcher import WatchMetrics, follow_all
from tests.ingest.api_server import ApiServer, Status, a_budget, a_pod, api_server
from tests.ingest.kube.test_kubernetes import LATER_MS, Published, followers, standing, watching

WEB = {"matchLabels": {"app": "web"}}
Selector = dict[str, Any] | None


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(watcher, "REFRESH_S", 0.02)
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    yield
    set_up_logs("DEBUG")


def pod(uid: str, app: str = "web", **changes: Any) -> dict[str, Any]:
    return a_pod(uid, labels={"app": app}, **changes)


def said(published: Published) -> dict[str, tuple[object, object]]:
    """Name and allowance of the budget of each container, as a reader of the topic has them in the end."""
    rows = standing(published.records())
    return {uid: (row.get("disruption_budget"), row.get("disruptions_allowed")) for uid, row in rows.items()}


def until(true: Callable[[], bool]) -> None:
    end = monotonic() + 20
    while not true():
        assert monotonic() < end
        sleep(0.01)


@contextmanager
def shop(state: Path, published: Published) -> Iterator[ApiServer]:
    """Two web pods under a budget that allows one disruption, and a db pod; watched."""
    with api_server() as server:
        server[0].put("poddisruptionbudgets", a_budget("web", WEB, 1))
        for uid, app in (("u1", "web"), ("u2", "web"), ("u3", "db")):
            server[0].put("pods", pod(uid, app))
        with watching(server, published, state):
            until(lambda: len(published.records()) == 5)
            yield server[0]


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        (WEB, True),
        ({"matchLabels": {"app": "web", "tier": "front"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["db", "web"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}, False),
        ({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["front"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, False),
        ({**WEB, "matchExpressions": [{"key": "tier", "operator": "Exists"}]}, False),
        ({}, True),
        ({"matchLabels": None, "matchExpressions": None}, True),
        (None, False),
    ],
)
def test_a_budget_is_about_the_pods_that_its_selector_matches(selector: Selector, *, matches: bool) -> None:
    budgets = by_namespace([budget_of(a_budget("b", selector, 2))])

    expected = {"disruption_budget": "b", "disruptions_allowed": 2} if matches else {}
    assert columns_of("shop", {"app": "web"}, budgets) == expected
    assert columns_of("other", {"app": "web"}, budgets) == {}


def test_a_pod_of_several_budgets_and_one_of_a_budget_that_was_just_changed_may_not_be_evicted() -> None:
    several = by_namespace([budget_of(a_budget("b", {}, 2)), budget_of(a_budget("a", WEB, 2))])
    changed = by_namespace([budget_of(a_budget("b", {}, 2, generation=2))])

    assert columns_of("shop", {"app": "web"}, several) == {"disruption_budget": "a", "disruptions_allowed": 0}
    assert columns_of("shop", {}, changed) == {"disruption_budget": "b", "disruptions_allowed": 0}


def test_a_selector_is_asked_for_as_the_api_reads_it() -> None:
    expressions = [
        {"key": "tier", "operator": "In", "values": ["a", "b"]},
        {"key": "old", "operator": "DoesNotExist"},
        {"key": "new", "operator": "Exists"},
        {"key": "zone", "operator": "NotIn", "values": ["z"]},
    ]
    selector = LabelSelector.model_validate({**WEB, "matchExpressions": expressions})

    assert selector.query() == "app=web,tier in (a,b),!old,new,zone notin (z)"


def test_placements_say_which_budget_a_pod_is_under_and_what_it_allows(tmp_path: Path) -> None:
    published = Published()
    with shop(tmp_path, published):
        pass

    assert said(published) == {"u1": ("web", 1), "u2": ("web", 1), "u3": (None, None)}
    changed = [("change", "u1"), ("change", "u2")]
    assert sorted(published.events()) == [("add", "u1"), ("add", "u2"), ("add", "u3"), *changed]


def test_a_changed_allowance_is_a_change_of_the_pods_that_the_budget_selects_alone(tmp_path: Path) -> None:
    published = Published()
    with shop(tmp_path, published) as api:
        before = len(published.records())
        api.put("poddisruptionbudgets", a_budget("web", WEB, 0))
        until(lambda: said(published)["u2"] == ("web", 0))
        changes = published.records()[before:]

    assert [(one["event"], one["container"]) for one in changes] == [("change", "u1"), ("change", "u2")]
    assert {one["ts"] - LATER_MS for one in changes} <= {0, 1}, "when it was heard, not when the pods last changed"
    asked = [query for query in api.requests("pods", watch=False) if "labelSelector" in query]
    assert [(one["labelSelector"], one["fieldSelector"]) for one in asked] == [("app=web", "metadata.namespace=shop")]


def test_a_budget_that_goes_or_selects_others_leaves_the_pods_that_it_had(tmp_path: Path) -> None:
    published = Published()
    with shop(tmp_path, published) as api:
        api.put("poddisruptionbudgets", a_budget("web", {"matchLabels": {"app": "db"}}, 1))
        until(lambda: said(published) == {"u1": (None, None), "u2": (None, None), "u3": ("web", 1)})
        api.remove("poddisruptionbudgets", "web")
        until(lambda: said(published)["u3"] == (None, None))


def test_a_pod_that_comes_is_under_the_budget_and_one_that_is_relabelled_leaves_it(tmp_path: Path) -> None:
    published = Published()
    with shop(tmp_path, published) as api:
        api.put("pods", pod("u4"))
        api.put("pods", pod("u1", "db", changed="2026-03-01T12:10:00Z"))
        until(lambda: said(published).get("u4") == ("web", 1) and said(published)["u1"] == (None, None))


def test_what_changed_while_no_watcher_ran_is_published_at_the_next_start(tmp_path: Path) -> None:
    published = Published()
    with api_server() as server:
        api, _ = server
        api.put("pods", pod("u1"))
        api.put("poddisruptionbudgets", a_budget("web", WEB, 1))
        with watching(server, published, tmp_path):
            until(lambda: said(published).get("u1") == ("web", 1))
        api.put("poddisruptionbudgets", a_budget("web", WEB, 3))
        with watching(server, published, tmp_path):
            until(lambda: said(published)["u1"] == ("web", 3))

    assert published.events() == [("add", "u1"), ("change", "u1"), ("change", "u1")]


@pytest.mark.parametrize("code", [403, 404])
def test_without_the_right_to_read_budgets_the_watcher_goes_on_and_counts_it_once(tmp_path: Path, code: int) -> None:
    published = Published()
    with api_server() as server:
        api, _ = server
        api.faults["poddisruptionbudgets"] += [Status(code)] * 5
        api.put("pods", pod("u1"))
        with watching(server, published, tmp_path) as count:
            until(lambda: not api.faults["poddisruptionbudgets"])
            assert count("failures", kind="poddisruptionbudgets") == 1

    assert ("add", "u1") in published.events()


def test_listing_once_goes_on_without_budgets_that_it_may_not_read(tmp_path: Path) -> None:
    published = Published()
    with api_server() as (api, address):
        api.put("pods", pod("u1"))
        api.faults["poddisruptionbudgets"].append(Status(403))
        for _ in range(2):
            metrics = WatchMetrics(CollectorRegistry())
            follow_all(followers(address, published, tmp_path, metrics), Event(), "listed")
            api.put("poddisruptionbudgets", a_budget("web", WEB, 2))

    assert published.events() == [("add", "u1"), ("change", "u1")], "the second time it may"


def test_a_malformed_budget_is_skipped_and_its_last_state_stays(tmp_path: Path) -> None:
    published = Published()
    with shop(tmp_path, published) as api:
        api.put("poddisruptionbudgets", a_budget("web", {"matchExpressions": [{"key": "a", "operator": "Near"}]}, 0))
        api.put("pods", pod("u4"))
        until(lambda: said(published).get("u4") == ("web", 1))

    assert json.loads((tmp_path / "pods.json").read_text())["budgets"][0][:2] == ["shop", "web"]
