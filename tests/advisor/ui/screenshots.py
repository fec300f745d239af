"""Pictures of the pages for README: `python tests/advisor/ui/screenshots.py [FOLDER]`, docs/images when left out."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import time_ns
from zlib import compress, crc32, decompress

TESTS = Path(__file__).parents[2]
sys.path.insert(0, str(TESTS.parent))

from playwright.sync_api import Browser, Page, ViewportSize  # noqa: E402

from advisor.auth.api_tokens import TokenRole  # noqa: E402
from advisor.plans.issue import given_as  # noqa: E402
from tests.advisor.billing.months_drawn import PERIOD  # noqa: E402
from tests.advisor.plans.offices import DRAFTER  # noqa: E402
from tests.advisor.ui.bench import bench  # noqa: E402
from tests.advisor.ui.browsing import chromium  # noqa: E402
from tests.advisor.ui.page_site import Site, site  # noqa: E402
from tests.advisor.ui.town import sick, town  # noqa: E402

NODES, VICTIMS = 900, 70
SIZE: ViewportSize = {"width": 980, "height": 740}
SHORT: ViewportSize = {"width": 1240, "height": 600}
WIDE: ViewportSize = {"width": 1120, "height": 500}
TALL: ViewportSize = {"width": 1120, "height": 880}
MAX_BYTES = 170_000


def main(folder: Path) -> None:
    """Write cluster.png, victims.png, victim.png, plans.png, plan.png and bills.png."""
    snapshot = town(NODES, time_ns() // 1000)
    told = sick(snapshot, VICTIMS)
    antagonist = next(one for one in told.diagnoses if one.verdict == "antagonist")
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as name, site(Path(name), snapshot, told) as found, chromium() as browser:
        page = browser.new_page(viewport=SIZE)
        page.goto(f"{found.main}/ui/login")
        page.fill("#token", found.token("mira", "sre"))
        page.click("main button[type=submit]")
        page.wait_for_selector("canvas[data-drawn]")
        taken(page, folder / "cluster.png")
        page.goto(f"{found.main}/ui/victims/{antagonist.container}")
        page.wait_for_selector("#charts[data-drawn]")
        page.evaluate("document.querySelector('.foot').remove()")
        taken(page, folder / "victim.png", whole=True)
        page.set_viewport_size(SHORT)
        page.goto(f"{found.main}/ui/victims")
        taken(page, folder / "victims.png")
        with TemporaryDirectory() as other:
            of_plans(browser, Path(other), folder)
            of_bills(browser, Path(other) / "bills", folder)


def of_plans(browser: Browser, kept: Path, folder: Path) -> None:
    """Write plans.png and plan.png."""
    with bench(kept, NODES, VICTIMS) as found:
        desk, stale = found.bureau.desk, found.bureau.office.stale
        drawn = [found.put(after).plan for after in (7, 5, 4, 3, 1, 0)]
        desk.reject(drawn[0], 1, "release today", DRAFTER)
        desk.approve(drawn[1], 1, None, DRAFTER, stale)
        desk.export(drawn[1], 2, given_as("plain"), DRAFTER)
        desk.approve(drawn[2], 1, {1, 2}, DRAFTER, stale)
        desk.approve(drawn[3], 1, None, DRAFTER, stale)
        page = entered(browser, found.site, "sre", "/ui/plans", WIDE)
        page.wait_for_selector("#plans tbody")
        taken(page, folder / "plans.png")
        page.set_viewport_size(TALL)
        page.goto(f"{found.site.main}/ui/plans/{drawn[-1]}")
        page.check("input[name=step-1]")
        page.check("input[name=step-2]")
        taken(page, folder / "plan.png")


def of_bills(browser: Browser, kept: Path, folder: Path) -> None:
    """Write bills.png."""
    with bench(kept) as found:
        page = entered(browser, found.site, "finance", f"/ui/bills/{PERIOD}", SIZE)
        page.wait_for_selector("#bars[data-drawn] canvas")
        taken(page, folder / "bills.png")


def entered(browser: Browser, at: Site, role: TokenRole, path: str, size: ViewportSize) -> Page:
    """A page that somebody of a role looks at."""
    page = browser.new_page(viewport=size)
    page.goto(f"{at.main}/ui/login?next={path}")
    page.fill("#token", at.token("mira", role))
    page.click("main button[type=submit]")
    return page


def taken(page: Page, path: Path, *, whole: bool = False) -> None:
    """Take a picture that a page of documentation can carry."""
    path.write_bytes(packed(page.screenshot(full_page=whole, scale="css")))
    if path.stat().st_size > MAX_BYTES:
        message = f"{path} has {path.stat().st_size} bytes, more than {MAX_BYTES}"
        raise ValueError(message)


def packed(png: bytes) -> bytes:
    """The same picture in fewer bytes: browsers pack for speed."""
    kept, pixels, at = [png[:8]], b"", 8
    while at < len(png):
        size, kind = int.from_bytes(png[at : at + 4]), png[at + 4 : at + 8]
        if kind == b"IDAT":
            pixels += png[at + 8 : at + 8 + size]
        elif kind == b"IEND":
            body = b"IDAT" + compress(decompress(pixels), 9)
            kept.append((len(body) - 4).to_bytes(4) + body + crc32(body).to_bytes(4) + png[at:])
        else:
            kept.append(png[at : at + 12 + size])
        at += 12 + size
    return b"".join(kept)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else TESTS.parent / "docs" / "images")
