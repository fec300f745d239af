"""Pictures of the pages for README: `python tests/pages/screenshots.py [FOLDER]`, docs/images when left out."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import time_ns

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS.parent), str(TESTS / "pages"), str(TESTS / "advisor")]

from browsing import chromium  # noqa: E402
from page_site import site  # noqa: E402
from playwright.sync_api import Page  # noqa: E402
from town import sick, town  # noqa: E402

SIZE = {"width": 1180, "height": 740}


def main(folder: Path) -> None:
    """Write cluster.png, victims.png and victim.png."""
    snapshot = town(1200, time_ns() // 1000)
    told = sick(snapshot, 90)
    culprit = next(one for one in told.diagnoses if one.verdict == "culprit")
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as name, site(Path(name), snapshot, told) as found, chromium() as browser:
        page = browser.new_page(viewport=SIZE)  # type: ignore[arg-type]
        page.goto(f"{found.main}/ui/login")
        page.fill("#token", found.token("mira", "sre"))
        page.screenshot(path=folder / "login.png")
        page.click("main button[type=submit]")
        _cluster(page, found.main, folder)
        page.goto(f"{found.main}/ui/victims")
        page.screenshot(path=folder / "victims.png")
        page.goto(f"{found.main}/ui/victims/{culprit.container}")
        page.wait_for_selector("#charts[data-drawn]")
        page.screenshot(path=folder / "victim.png", full_page=True)
        page.goto(f"{found.main}/ui/nodes/{culprit.node}")
        page.screenshot(path=folder / "node.png")
        page.emulate_media(color_scheme="dark")
        _cluster(page, found.main, folder, "-dark")
        page.goto(f"{found.main}/ui/victims/{culprit.container}")
        page.wait_for_selector("#charts[data-drawn]")
        page.screenshot(path=folder / "victim-dark.png", full_page=True)


def _cluster(page: Page, main: str, folder: Path, suffix: str = "") -> None:
    page.goto(f"{main}/ui/cluster")
    page.wait_for_selector("canvas[data-drawn]")
    page.screenshot(path=folder / f"cluster{suffix}.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else TESTS.parent / "docs" / "images")
