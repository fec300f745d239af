"""Compose: the file fits the published schema, our command line and our settings, and opens nothing to a network."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from cohabit.config.settings import read_settings
from tests.deploy.checks import refusal
from tests.deploy.composed import COMPOSE, commands_of, environment_of, order, ours, services

VENDOR = Path(__file__).parent / "vendor"
SERVICES = services(COMPOSE)


def test_it_fits_the_published_schema() -> None:
    text = (VENDOR / "compose-spec.json").read_bytes()
    assert hashlib.sha256(text).hexdigest() in (VENDOR / "SHA256SUMS").read_text()

    jsonschema_rs.validate(json.loads(text), yaml.safe_load(COMPOSE.read_text()))


def test_a_key_that_compose_does_not_know_is_found() -> None:
    changed = yaml.safe_load(COMPOSE.read_text())
    changed["services"]["serve"]["port"] = "8080"

    with pytest.raises(jsonschema_rs.ValidationError, match="port"):
        jsonschema_rs.validate(json.loads((VENDOR / "compose-spec.json").read_text()), changed)


@pytest.mark.parametrize("name", sorted(ours(SERVICES)))
def test_every_command_is_one_of_the_command_line(name: str) -> None:
    named = commands_of(SERVICES[name])

    assert named
    assert [(words, why) for words in named if (why := refusal(words))] == []


@pytest.mark.parametrize("name", sorted(ours(SERVICES)))
def test_its_settings_hold(name: str) -> None:
    own = read_settings(environment_of(SERVICES[name]))

    assert own.cluster == "sim"
    assert {str(own.lake), str(own.registry), str(own.snapshots)} == {"/data/lake", "/data/registry", "/data/snapshots"}


def test_only_this_machine_may_ask() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", ())]

    assert ports == ["127.0.0.1:9094:9094", "127.0.0.1:8080:8080"]


@pytest.mark.parametrize("name", sorted(ours(SERVICES)))
def test_ours_run_with_a_root_that_is_read_only_and_without_rights(name: str) -> None:
    service = SERVICES[name]

    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["tmpfs"] == ["/tmp"]  # noqa: S108
    assert service["build"]["dockerfile"] == "deploy/images/jobs.Containerfile"


def test_every_image_has_a_version() -> None:
    images = {service["image"] for service in SERVICES.values()}

    assert all(re.fullmatch(r"[a-z/-]+:[0-9][0-9.a-z-]*", image) for image in images), images


def test_every_service_waits_for_what_it_needs() -> None:
    def condition(service: Any) -> str:
        return "service_healthy" if "healthcheck" in service else "service_completed_successfully"

    for name, service in SERVICES.items():
        for other, how in service.get("depends_on", {}).items():
            assert how["condition"] == condition(SERVICES[other]), (name, other)
        assert ("restart" in service) <= ("healthcheck" in service), name
    assert order(SERVICES)[-1] == "serve"


def test_kafka_is_of_the_version_that_tests_run() -> None:
    jars = (COMPOSE.parent / "ingest" / "devkafka" / "jars.sha256").read_text()
    version = SERVICES["kafka"]["image"].partition(":")[2]

    assert f"kafka-server-{version}.jar" in jars or f"kafka_2.13-{version}.jar" in jars
