"""A visit with a browser: logged in, and everything written down that a page must not do."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from playwright.sync_api import Browser, Page

from advisor.auth.api_tokens import TokenRole
from tests.advisor.ui.page_site import Site

AXE = Path(__file__).parent / "vendor" / "axe.min.js"
NUMBERS = count()
MAX_TRIES, AGAIN_MS = 10, 5_000
"""Log-ins of one address are limited, and all tests come from one."""


@dataclass
class Visit:
    """A page of its own, and what went wrong on it."""

    page: Page
    site: Site
    wrong: list[str] = field(default_factory=list)

    def go(self, path: str) -> None:
        self.page.goto(self.site.main + path)

    def log_in(self, role: TokenRole = "sre") -> str:
        """With a new token, whose name is told."""
        name = f"{role}-{next(NUMBERS)}-{id(self)}"
        token = self.site.token(name, role)
        for _ in range(MAX_TRIES):
            self.go("/ui/login")
            self.page.fill("#token", token)
            with self.page.expect_navigation():
                self.page.click("main button[type=submit]")
            if "/ui/login" not in self.page.url:
                break
            self.page.wait_for_timeout(AGAIN_MS)
        self.page.wait_for_url(lambda url: "/ui/login" not in url)
        return name

    def path(self) -> str:
        return self.page.url.removeprefix(self.site.main)

    def violations(self) -> list[str]:
        """What axe-core finds on the page as it is."""
        self.page.evaluate(AXE.read_text())  # as a debugger would: the policy lets no page load it
        found = self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        return [f"{one['id']}: {one['nodes'][0]['html']}" for one in found["violations"]]


@contextmanager
def visiting(browser: Browser, site: Site, scheme: str = "light") -> Iterator[Visit]:
    """A new browser profile; at the end nothing went wrong, and nothing was asked of another machine."""
    context = browser.new_context(color_scheme=scheme)  # type: ignore[arg-type]
    visit = Visit(context.new_page(), site)
    page = visit.page
    page.on("pageerror", lambda error: visit.wrong.append(str(error)))
    page.on("console", lambda message: visit.wrong.append(message.text) if "Policy" in message.text else None)
    page.on("request", lambda asked: None if asked.url.startswith(site.main) else visit.wrong.append(asked.url))
    page.set_default_timeout(60_000)
    try:
        yield visit
    finally:
        context.close()
    assert not visit.wrong
