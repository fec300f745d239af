"""Debian's Chromium, driven by Playwright: found, or installed by root; never a browser that Playwright brings."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

SCRIPT = Path(__file__).parents[3] / "scripts" / "chromium.sh"
INSTALL_LIMIT_S = 600
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-lcd-text",
)


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser with an empty profile, ended with the block."""
    found = subprocess.run([SCRIPT], capture_output=True, text=True, check=False, timeout=INSTALL_LIMIT_S)
    if found.returncode:
        message = f"no browser to test with: {found.stderr.strip()[-1000:]}"
        raise RuntimeError(message)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found.stdout.strip(), args=list(ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()
