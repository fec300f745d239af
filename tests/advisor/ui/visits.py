"""A visit with a browser: logged in, and everything written down that a page must not do."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from playwright.sync_api import Browser, Page

from advisor.auth.api_tokens import TokenRole
from advisor.ui.site.auth_middleware import SESSION_COOKIE
from tests.advisor.ui.page_site import Site

AXE = Path(__file__).parent / "vendor" / "axe.min.js"
NUMBERS = count()


@dataclass
class Visit:
    """A page of its own, and what went wrong on it."""

    page: Page
    site: Site
    wrong: list[str] = field(default_factory=list)

    def go(self, path: str) -> None:
        self.page.goto(self.site.main + path)

    def log_in(self, role: TokenRole = "sre") -> str:
        """Begin with a session that is there; the name of its token. Log-ins of one address are limited."""
        name = f"{role}-{next(NUMBERS)}-{id(self)}"
        kept = {"name": SESSION_COOKIE, "value": self.site.session(name, role), "domain": "127.0.0.1", "path": "/ui"}
        self.page.context.add_cookies([{**kept, "httpOnly": True, "sameSite": "Strict"}])  # type: ignore[typeddict-item]
        self.go("/ui/")
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
