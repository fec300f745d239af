"""`cohabit serve` has people decide on proposals where the store is migrated and the lake is there."""

from dataclasses import replace
from pathlib import Path

from httpx2 import Client

from advisor.auth.audit_log import entries
from advisor.database.engine import open_store
from advisor.plans.plan_service import Desk
from advisor.plans.rules.approval_states import drafted
from advisor.plans.rules.policy import Rules
from tests.advisor.plans.offices import DRAFTER, mixed
from tests.advisor.ui.page_site import site
from tests.advisor.ui.town import town


def test_on_an_open_server_the_user_of_the_machine_decides(tmp_path: Path) -> None:
    (tmp_path / "cohabit-data" / "lake").mkdir(parents=True)
    snapshot = town(5, now_us := 10**15, each=2)
    with site(tmp_path, snapshot, None, auth="none") as served, open_store(served.store) as store:
        plan = replace(mixed(created_us=2 * 10**15), cluster="default")
        Desk(store, "default", Rules(), lambda: now_us).put(drafted(plan), DRAFTER)
        with Client(base_url=served.main) as client:
            listed = client.get("/v1/plans")
            tried = client.post("/v1/plans/p1/approve", json={"version": 1})
            frozen = client.post("/v1/freeze", json={"reason": "incident 17"})
            lifted = client.post("/v1/unfreeze", headers={"Origin": "https://evil.example"})
            read = client.get("/v1/plans", headers={"Host": "evil.example"})
            shown = client.get("/ui/cluster")
        who = [(one.who.split(":")[0], one.role, one.action) for one in entries(store)]

    assert listed.status_code == 200
    assert tried.status_code == 503, tried.text
    assert "cannot be validated again, so nothing was decided" in tried.json()["error"]
    assert frozen.json()["frozen"]
    assert [lifted.status_code, read.status_code] == [403, 403]
    assert "All changes are frozen" in shown.text
    assert who == [("local", "admin", "draft"), ("local", "admin", "freeze")]


def test_without_a_lake_a_server_serves_all_the_same(tmp_path: Path) -> None:
    with site(tmp_path, town(5, 10**15, each=2), None, auth="none") as served, Client(base_url=served.main) as client:
        pages = [client.get(path) for path in ("/ui/cluster", "/ui/plans")]
        refused = client.get("/v1/plans")

    assert [page.status_code for page in pages] == [200, 200]
    assert "cohabit admin database migrate" in pages[1].text
    assert refused.status_code == 503
