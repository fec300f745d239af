"""Deploy: alerts and the dashboard name metrics and labels that there are, and every alert says what to do."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry

from advisor.placement.model_state import Serving
from advisor.placement.prioritizer import Prioritizer
from ingest.kube.watcher import WatchMetrics
from ingest.pipeline.metrics import IngestMetrics
from models.registry.registry import Registry

DEPLOY = Path(__file__).parents[2] / "deploy"


def exported() -> set[str]:
    """Every name that a scrape may hold, and the names of all labels."""
    registry = CollectorRegistry()
    Prioritizer(Serving(Path(), Registry(Path()), 1.0, lambda: 0, registry))
    IngestMetrics(registry, lambda: 0.0)
    WatchMetrics(registry)
    kinds = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}
    return {metric.name + end for metric in registry.collect() for end in kinds[metric.type]}


def alerts() -> list[dict[str, Any]]:
    told = yaml.safe_load((DEPLOY / "prometheus" / "cohabit.rules.yaml").read_text())
    return [rule for group in told["groups"] for rule in group["rules"]]


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DEPLOY / "grafana" / "cohabit.json").read_text())
    return found


def expressions() -> Iterator[str]:
    yield from (rule["expr"] for rule in alerts())
    yield from (target["expr"] for panel in dashboard()["panels"] for target in panel["targets"])


@pytest.mark.parametrize("expression", sorted(set(expressions())))
def test_every_metric_is_exported_and_brackets_close(expression: str) -> None:
    assert set(re.findall(r"cohabit_\w+", expression)) <= exported()
    assert all(expression.count(a) == expression.count(b) for a, b in ("()", "[]", "{}"))


def test_every_alert_says_how_bad_it_is_what_is_so_and_what_to_do() -> None:
    for rule in alerts():
        assert re.fullmatch(r"Cohabit[A-Za-z]+", rule["alert"])
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert "$value" in rule["annotations"]["summary"] or "$labels" in rule["annotations"]["summary"]
        assert len(rule["annotations"]["description"].split()) > 8


def test_panels_do_not_overlap_and_say_what_they_show() -> None:
    panels = dashboard()["panels"]
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}

    assert len(places) == len({panel["id"] for panel in panels}) == len(panels)
    assert all(panel["title"] and panel["description"] for panel in panels)


def test_the_stale_alert_comes_before_answers_become_neutral() -> None:
    from cohabit.config.settings import AdvisorSettings

    [stale] = [rule for rule in alerts() if rule["alert"] == "CohabitSnapshotStale"]

    assert float(stale["expr"].split(">")[1]) < AdvisorSettings().max_feature_age_s
