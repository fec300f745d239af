"""Own site: an open listener answers no page of another site, by whichever name or way it asks."""

import pytest
from fastapi.testclient import TestClient

from advisor.api.app import create_app
from advisor.api.http.csrf import OwnSite
from tests.advisor.plans.offices import Bureau
from tests.advisor.processes import Process


@pytest.fixture
def client(process: Process, bureau: Bureau) -> TestClient:
    return TestClient(OwnSite(create_app(process.serving, office=bureau.office)), base_url="http://localhost:8080")


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:8080", "", "[::1"])
def test_whoever_names_this_machine_otherwise_reads_and_decides_nothing(client: TestClient, host: str) -> None:
    read = client.get("/v1/plans/p1", headers={"Host": host})
    decided = client.post("/v1/plans/p1/approve", json={"version": 1}, headers={"Host": host})

    assert [read.status_code, decided.status_code] == [403, 403]
    assert "use localhost or 127.0.0.1" in read.json()["error"]
    assert client.get("/v1/plans/p1").json()["state"] == "drafted"


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:3000"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_a_page_of_another_site_lifts_no_freeze(client: TestClient, bureau: Bureau, headers: dict[str, str]) -> None:
    client.post("/v1/freeze", json={"reason": "incident 17"})

    refused = client.post("/v1/unfreeze", headers=headers)

    assert refused.status_code == 403
    assert "another site" in refused.json()["error"]
    assert bureau.office.desk.frozen() is not None


@pytest.mark.parametrize("host", ["localhost", "localhost:8080", "127.0.0.1:8080", "127.9.9.9", "[::1]:8080"])
def test_tools_on_this_machine_are_answered(client: TestClient, host: str) -> None:
    assert client.get("/v1/plans", headers={"Host": host}).status_code == 200
    assert client.post("/v1/unfreeze", headers={"Host": host}).status_code == 200


def test_probes_and_metrics_are_answered_by_any_name(client: TestClient) -> None:
    assert client.get("/healthz", headers={"Host": "node-7.example"}).status_code == 200
    assert client.get("/metrics", headers={"Host": "node-7.example"}).status_code == 200
