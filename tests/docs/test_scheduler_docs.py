"""What docs/scheduler.md and docs/scores.md say of configurations, scores, sources and commands is so."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import yaml
from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from advisor.api.http.roles import roles_of
from advisor.api.scheduler.scheduler_app import create_scheduler_app
from advisor.placement.exact_source import NotSaid
from advisor.placement.model_state import Serving
from advisor.placement.prioritizer import Prioritizer
from advisor.scoring.score_scale import points
from cohabit.doctor.scheduler import REMEDIES
from cohabit.doctor.scheduler_config import configured
from models.registry.registry import Registry
from tests.advisor.running import fill, served, until_ready

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "scheduler.md").read_text()
SCORES = (ROOT / "docs" / "scores.md").read_text()
METRICS = "".join((ROOT / "docs" / name).read_text() for name in ("scheduler.md", "scores.md"))
README = (ROOT / "README.md").read_text()
YAML = r"```yaml\n(.*?)```"
BIN = Path(sys.executable).parent


def configurations(page: str) -> list[Mapping[str, Any]]:
    return [yaml.safe_load(block) for block in re.findall(YAML, page, flags=re.DOTALL)]


def rows(heading: str) -> list[list[str]]:
    """Cells of the table under a heading row."""
    table = SCORES[SCORES.index(heading) :].split("\n\n")[0]
    return [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


@pytest.fixture
def listener(tmp_path: Path) -> FastAPI:
    serving = Serving(tmp_path, Registry(tmp_path), 120.0, lambda: 0, CollectorRegistry())
    return create_scheduler_app(Prioritizer(serving))


def test_the_advised_configurations_are_what_the_doctor_advises() -> None:
    (in_readme,) = configurations(README)

    for configuration in (configurations(PAGE)[0], in_readme):
        assert {finding.level for finding in configured(configuration).findings} == {"ok"}


def test_of_the_configuration_that_steers_the_doctor_only_says_what_it_costs() -> None:
    found = configured(configurations(PAGE)[1]).findings

    assert {finding.level for finding in found} == {"ok", "warning"}
    assert [finding.subject for finding in found if finding.level == "warning"] == ["filterVerb"]


def test_the_configured_addresses_are_answered(listener: FastAPI) -> None:
    _, kube_scheduler, volcano, trimaran = configurations(PAGE)
    (extender,) = kube_scheduler["extenders"]
    arguments = next(p["arguments"] for tier in volcano["tiers"] for p in tier["plugins"] if p["name"] == "extender")
    (plugin,) = trimaran["profiles"][0]["pluginConfig"]

    asked = {
        f"POST {extender['urlPrefix']}/{extender['prioritizeVerb']}",
        f"POST {extender['urlPrefix']}/{extender['filterVerb']}",
        f"POST {arguments['extender.urlPrefix']}/{arguments['extender.prioritizeVerb']}",
        f"GET {plugin['args']['watcherAddress']}/watcher",
    }

    answered = {
        of.replace(" ", " http://127.0.0.1:8081") for of, who in roles_of(listener).items() if "scheduler" in who
    }
    own = {f"POST http://127.0.0.1:8081/assumed-pods{more}" for more in ("", "/query")}  # for servers and the plugin
    assert asked == answered - own


def test_each_score_is_given_up_to_the_cost_that_is_told() -> None:
    told = {int(score): float(cost) for score, cost, _ in rows("| score | cost up to |") if score != "0"}
    assert told.keys() == set(range(1, 11))

    for score, cost in told.items():
        given = points(np.array([cost, cost + 0.015]), np.zeros(2, np.bool_), best_effort=False)
        assert given.tolist() == [score, score - 1]


def test_every_reason_in_the_code_is_told_and_no_other() -> None:
    code = "\n".join(
        (ROOT / "advisor" / "placement" / name).read_text() for name in ("prioritizer.py", "model_state.py")
    )
    neutral = set(re.findall(r'neutral\([^()]*, "(\w+)"\)', code))
    nearest = set(get_args(NotSaid))
    others = {"stale", "ahead", "not_loaded", "no_bundle", "no_snapshot"}
    assert all(f'"{reason}"' in code for reason in others)

    told = {(reason, source) for reason, of, _ in rows("| reason | of |") for source in of.split(", ")}
    assert {reason for reason, source in told if source == "neutral"} == neutral | others
    assert {reason for reason, source in told if source == "nearest"} == nearest
    names = code + "".join(
        (ROOT / name).read_text()
        for name in (
            "advisor/placement/reservations.py",
            "advisor/placement/assumed_pod_sync.py",
            "cohabit/server/reservation_poller.py",
        )
    )
    assert all(f'"{name.removesuffix("_total")}"' in names for name in re.findall(r"`(cohabit_\w+)`", METRICS))
    assert set(REMEDIES) <= neutral | others | {"no_drift"}
    assert {source for source, _ in rows("| source | what it is |")} == {
        "table",
        "model",
        "nearest",
        "last_good",
        "neutral",
        "heuristic",
        "holdout",
        "reservation",
    }


def test_the_commands_run(tmp_path: Path) -> None:
    fill(tmp_path)
    commands = re.search(r"<!-- runs as a test against a running server -->\n```sh\n(.*?)```", PAGE, flags=re.DOTALL)
    assert commands is not None
    with served(tmp_path) as (main, scheduler):
        until_ready(main, scheduler)
        (tmp_path / "scheduler.yaml").write_text(
            re.findall(YAML, PAGE, flags=re.DOTALL)[0]
            .replace("http://127.0.0.1:8081", scheduler)
            .replace("100ms", "1s")
        )
        kept = {k: v for k, v in os.environ.items() if not k.startswith("COHABIT_")}
        kept |= {"PATH": f"{BIN}{os.pathsep}{kept['PATH']}", "COHABIT_ADVISOR__PORT": main.rpartition(":")[2]}
        line = commands[1].replace("localhost:8080", main).replace("localhost:8081", scheduler)
        ran = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", line.replace("\n", "\necho\n")],
            cwd=tmp_path, env=kept, capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip

    assert ran.returncode == 0, ran.stdout + ran.stderr
    told, _, answers = ran.stdout.partition("problems\n")
    prioritized, volcano, watcher = (json.loads(answer) for answer in answers.split("\n") if answer[:1] in {"[", "{"})
    assert "ok      answer: 200" in told
    assert [entry["Host"] for entry in prioritized] == ["n0", "n1"]
    assert volcano["nodeScore"].keys() == {"n0", "n1"}
    assert watcher["data"]["NodeMetricsMap"].keys() == {"n0"}
    assert "cohabit_score_requests_total{" in answers
