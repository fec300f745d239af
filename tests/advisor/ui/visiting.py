"""Visits without a browser: requests as one would send them, to pages over a store and a clock of the test's own."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count

from fastapi import FastAPI
from fastapi.testclient import TestClient
from httpx2 import Response

from advisor.auth.api_tokens import TokenRole
from advisor.billing.quotes.dependencies import BillOffice
from advisor.diagnosis.report_file import write_report
from advisor.plans.issue import given_as
from advisor.ui.app import create_pages
from advisor.ui.site.identity import Entrance, OpenEntrance
from advisor.ui.site.sessions import SessionEntrance
from tests.advisor.api.http.test_auth_middleware import Guarded
from tests.advisor.billing.bill_offices import bill_office, closed, proposed
from tests.advisor.diagnoses import AT_US, FOUND
from tests.advisor.plans.offices import DRAFTER, Bureau, mixed
from tests.advisor.processes import Process
from tests.advisor.ui.town import town

BASE = "http://cohabit.example"


@dataclass
class House:
    """Pages over a small cluster, and who guards them."""

    process: Process
    entrance: Entrance
    guarded: Guarded | None = None
    bureau: Bureau | None = None
    bills: BillOffice | None = None
    numbers: Iterator[int] = field(default_factory=count)

    @cached_property
    def app(self) -> FastAPI:
        """All its visitors come to the same one."""
        office = None if self.bureau is None else self.bureau.office
        return create_pages(self.process.serving, self.entrance, office, self.bills)

    def visitor(self, base: str = BASE) -> TestClient:
        """Somebody with a browser of their own."""
        return TestClient(self.app, base, follow_redirects=False, client=("192.0.2.7", 50_000))

    def logged_in(self, role: TokenRole) -> TestClient:
        """Somebody who has logged in."""
        assert self.guarded is not None
        visitor = self.visitor()
        reply = log_in(visitor, self.guarded.token(role))
        assert reply.status_code == 303, reply.text
        return visitor


def small(process: Process) -> Process:
    """The process, with a cluster and victims on it."""
    process.publish(town(5, AT_US, each=4))
    write_report(process.snapshots, FOUND)
    process.serving.reload()
    return process


def guarded_house(process: Process, guarded: Guarded) -> House:
    """Pages that ask who comes."""
    numbers = count()
    guard = guarded.guard
    entrance = SessionEntrance(
        guarded.store, lambda: guarded.now_us, lambda: f"{next(numbers):064x}", guard.refusals, guard.rates
    )
    bills = closed(bill_office(guarded.store, process.snapshots.parent))
    proposed(bills)
    return House(small(process), entrance, guarded, bureau_over(guarded), bills)


def bureau_over(guarded: Guarded) -> Bureau:
    """Proposals: p1 is drafted, p2 was given out."""
    bureau = Bureau(guarded.store)
    bureau.put(mixed(victims=("web-1",)), mixed("p2"))
    bureau.desk.approve("p2", 1, None, DRAFTER, bureau.office.stale)
    bureau.desk.export("p2", 2, given_as("plain"), DRAFTER)
    return bureau


def open_house(process: Process) -> House:
    """Pages that whoever reaches them may see."""
    return House(small(process), OpenEntrance("local:me", lambda: AT_US, lambda: "secret"))


def csrf_in(page: Response) -> str:
    """What the form of a page brings back."""
    found = re.search(r'name="csrf" value="(\w+)"', page.text)
    assert found is not None, page.text
    return found[1]


def log_in(visitor: TestClient, token: str, to: str = "/ui/") -> Response:
    """As the form does it."""
    csrf = csrf_in(visitor.get("/ui/login"))
    return visitor.post("/ui/login", data={"csrf": csrf, "token": token, "next": to})
