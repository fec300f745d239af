"""Each listener answers as its OpenAPI says: schemathesis asks what fits the description, and what does not."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
import schemathesis
from fastapi import FastAPI
from fastapi.testclient import TestClient
from schemathesis.engine import from_schema
from schemathesis.engine.events import FatalError, FuzzScenarioFinished, NonFatalError, ScenarioFinished
from schemathesis.engine.recorder import ScenarioRecorder

from advisor.admission.admission_advice import AdmissionAdvice
from advisor.admission.room_file import NewestRooms
from advisor.api.app import create_app
from advisor.api.http.openapi import WHY
from advisor.api.scheduler.admission import create_admission_app
from advisor.api.scheduler.scheduler_app import create_scheduler_app
from advisor.database.engine import open_store
from advisor.gangs.gang_costs import exact_costs
from advisor.gangs.gang_desk import GangDesk
from advisor.placement.model_state import Serving
from advisor.placement.prioritizer import Prioritizer
from tests.advisor.api.http.test_auth_middleware import Guarded
from tests.advisor.billing.bill_offices import bill_office
from tests.advisor.capacity.published_reports import publish_all
from tests.advisor.plans.offices import Bureau
from tests.advisor.processes import Process, new_process

pytestmark = pytest.mark.slow

EXAMPLES = 60
"""Of each route, beside those that go along every bound of the description."""

ACCEPTED = ["2xx", "3xx", "401", "403", "404", "409", "423", "429", "5xx"]
"""What may come of a request that fits; 423 where another one has frozen everything."""


@dataclass
class Held:
    """What came of holding an application against its description."""

    requests: Counter[str] = field(default_factory=Counter)
    statuses: Counter[int] = field(default_factory=Counter)
    checks: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def add(self, recorder: ScenarioRecorder) -> None:
        self.requests[recorder.label] += len(recorder.interactions)
        answered = [one.response for one in recorder.interactions.values() if one.response is not None]
        self.statuses.update(response.status_code for response in answered)
        for check in (check for checks in recorder.checks.values() for check in checks):
            self.checks[check.name] += 1
            if (found := check.failure_info) is not None:
                failure = found.failure
                self.failures.append(f"{recorder.label}: {failure.title}: {failure.message}\n{found.code_sample}")


def held(app: FastAPI, headers: Mapping[str, str] | None = None) -> Held:
    """Every phase and every check of schemathesis, the same requests every time."""
    generation = {"max-examples": EXAMPLES, "deterministic": True, "database": "none"}
    accepted = {"positive_data_acceptance": {"expected-statuses": ACCEPTED}}
    config = schemathesis.Config.from_dict(
        {"generation": generation, "headers": dict(headers or {}), "checks": accepted}
    )
    found = Held()
    for event in from_schema(schemathesis.openapi.from_asgi("/openapi.json", app, config=config)).execute():
        if isinstance(event, FatalError):
            raise event.exception
        if isinstance(event, NonFatalError):
            found.failures.append(event.info.format())
        elif isinstance(event, ScenarioFinished | FuzzScenarioFinished):
            found.add(event.recorder)
    return found


@pytest.fixture
def guarding(postgres_address: str) -> Iterator[Guarded]:
    """On the database that takes less: SQLite has tests of the store itself."""
    with open_store(postgres_address) as store:
        yield Guarded(store)


def described(app: FastAPI) -> dict[str, dict[str, list[str]]]:
    paths = TestClient(app).get("/openapi.json").json()["paths"]
    return {path: {m: sorted(of["responses"]) for m, of in methods.items()} for path, methods in paths.items()}


def gang_desk(serving: Serving, bureau: Bureau) -> GangDesk:
    costs = partial(exact_costs, serving.scorer)
    return GangDesk(bureau.store, lambda: serving.snapshot, lambda: None, costs, serving.now_us)


@pytest.mark.long
def test_the_listener_for_people_answers_as_described(process: Process, bureau: Bureau, tmp_path: Path) -> None:
    bills, serving = bill_office(bureau.store, tmp_path), process.made_ready().serving
    publish_all(serving.snapshots, serving.now_us())
    found = held(create_app(serving, office=bureau.office, bills=bills, gangs=gang_desk(serving, bureau)))

    assert not found.failures, "\n".join(found.failures)
    assert min(found.requests[f"POST /v1/{of}"] for of in ("scores", "quotes")) > EXAMPLES
    assert {"negative_data_rejection", "response_schema_conformance", "unsupported_method"} <= found.checks.keys()


@pytest.mark.long
def test_the_listener_for_schedulers_answers_as_described(process: Process) -> None:
    found = held(create_scheduler_app(Prioritizer(process.made_ready().serving)))

    assert not found.failures, "\n".join(found.failures)
    assert min(found.requests[f"POST /{of}/prioritize"] for of in ("extender", "volcano")) > EXAMPLES


@pytest.mark.long
def test_behind_the_gate_answers_are_as_described_and_a_token_is_not_ignored(
    process: Process, guarding: Guarded, bureau: Bureau, tmp_path: Path
) -> None:
    bills = bill_office(bureau.store, tmp_path)
    serving = process.made_ready().serving
    publish_all(serving.snapshots, serving.now_us())
    app = create_app(serving, guarding.guard, office=bureau.office, bills=bills, gangs=gang_desk(serving, bureau))

    found = held(app, {"Authorization": f"Bearer {guarding.token('admin')}"})  # whom every route lets in

    assert not found.failures, "\n".join(found.failures)
    assert found.checks["ignored_auth"]
    assert found.statuses[200] > EXAMPLES / 2
    assert {entry.outcome for entry in guarding.refused()} == {"401 no token"}


def test_every_status_that_a_route_answers_is_described(process: Process, guarding: Guarded, tmp_path: Path) -> None:
    serving = process.serving

    assert described(create_app(serving)) == {
        "/v1/scores": {"post": ["200", "400", "404", "408", "413", "422", "503"]},
        "/v1/capacity/headroom": {"get": ["200", "422", "503"]},
        "/v1/capacity/forecast": {"get": ["200", "503"]},
        "/v1/capacity/purchases": {"get": ["200", "503"]},
        "/v1/capacity/what-if": {"get": ["200", "503"]},
        "/v1/gangs": {
            "get": ["200", "503"],
            "post": ["200", "400", "408", "409", "413", "422", "503"],
        },
        "/v1/gangs/{id}": {"delete": ["200", "404", "422", "503"]},
        "/v1/gangs/{id}/renew": {"post": ["200", "400", "404", "408", "409", "413", "422", "503"]},
        "/v1/budgets": {"get": ["200", "403", "404", "422", "503"]},
        "/v1/prices": {"get": ["200", "503"]},
        "/v1/statements": {"get": ["200", "403", "503"]},
        "/v1/statements/{period}": {"get": ["200", "403", "404", "422", "503"]},
        "/v1/statements/{period}/team": {"get": ["200", "403", "404", "422", "503"]},
        "/v1/quotes": {"post": ["200", "400", "403", "404", "408", "409", "413", "422", "503"]},
        "/v1/victims": {"get": ["200", "404", "422", "503"]},
        "/v1/victims/{container}": {"get": ["200", "404", "422", "503"]},
        "/v1/victims/{container}/options": {"get": ["200", "404", "422", "503"]},
        "/v1/plans": {"get": ["200", "422", "503"]},
        "/v1/plans/{plan}": {"get": ["200", "404", "422", "503"]},
        "/v1/plans/{plan}/approve": {"post": ["200", "400", "404", "408", "409", "413", "422", "423", "503"]},
        "/v1/plans/{plan}/reject": {"post": ["200", "400", "404", "408", "409", "413", "422", "503"]},
        "/v1/plans/{plan}/export": {"post": ["200", "400", "404", "408", "409", "413", "422", "423", "503"]},
        "/v1/freeze": {"get": ["200", "503"], "post": ["200", "400", "408", "413", "422", "503"]},
        "/v1/unfreeze": {"post": ["200", "503"]},
        "/healthz": {"get": ["200"]},
        "/readyz": {"get": ["200", "503"]},
        "/metrics": {"get": ["200"]},
    }
    assert described(create_scheduler_app(Prioritizer(serving))) == {
        "/extender/prioritize": {"post": ["200", "400", "408", "413"]},
        "/extender/filter": {"post": ["200", "400", "408", "413"]},
        "/assumed-pods": {"post": ["204", "400", "408", "413"]},
        "/assumed-pods/query": {"post": ["200", "400", "408", "413"]},
        "/volcano/prioritize": {"post": ["200", "400", "408", "413"]},
        "/watcher": {"get": ["200", "404", "422"]},
    }
    other = new_process(tmp_path, tmp_path / "other").serving  # each prioritizer has metrics of its own
    advice = AdmissionAdvice(Prioritizer(other), NewestRooms(tmp_path), "advise", str)
    assert described(create_admission_app(advice)) == {"/admission": {"post": ["200", "400", "408", "413"]}}
    behind = described(create_app(serving, guarding.guard))
    assert behind["/v1/scores"]["post"] == ["200", "400", "401", "403", "404", "408", "413", "422", "429", "503"]
    assert behind["/healthz"] == {"get": ["200"]}


def test_a_refusal_is_one_sentence_whatever_its_status(process: Process) -> None:
    reply = TestClient(create_app(process.serving)).get("/openapi.json").json()

    refused = reply["paths"]["/v1/scores"]["post"]["responses"]
    schemas = {refused[str(status)]["content"]["application/json"]["schema"]["$ref"] for status in (400, 413, 422)}
    assert schemas == {"#/components/schemas/ErrorReply"}
    assert {refused[str(status)]["description"] for status in (400, 413)} == {WHY[400], WHY[413]}
