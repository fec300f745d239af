"""Check that a built site loads no resource from another host: python scripts/site_check.py FOLDER; exit 1 if not.

What a page loads is what a browser fetches unasked: scripts, styles, images, frames, fonts, and addresses in styles.
Links that people click do not count, nor do addresses in text.
"""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlsplit

LOADING = {"src", "srcset", "poster", "data", "action", "background"}
"""Attributes that are loaded, of whichever element; `href` of a `link` and of what is drawn too."""
IN_STYLE = re.compile(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)")
DIAGRAMS = 'class="mermaid"'
"""The theme would fetch what draws these."""


class Loaded(HTMLParser):
    """Addresses that a page loads."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Addresses of an element."""
        self._style = tag == "style"
        for name, value in attrs:
            if name in LOADING or (name in {"href", "xlink:href"} and tag in {"link", "image", "use", "base"}):
                self.found += re.split(r"[\s,]+", value or "") if name == "srcset" else [value or ""]
            elif name == "style":
                self.found += in_style(value or "")

    def handle_data(self, data: str) -> None:
        """Addresses in a style."""
        if self._style:
            self.found += in_style(data)


def in_style(text: str) -> list[str]:
    """Addresses that a style loads."""
    return ["".join(found) for found in IN_STYLE.findall(text)]


def foreign(site: Path) -> list[str]:
    """What is loaded from elsewhere, as "page: address"."""
    found = []
    for path in sorted(site.rglob("*")):
        if path.suffix not in {".html", ".css", ".svg"}:
            continue
        text = path.read_text()
        page = Loaded()
        page.feed("" if path.suffix == ".css" else text)
        addresses = in_style(text) if path.suffix == ".css" else page.found
        found += [f"{path.relative_to(site)}: {one}" for one in addresses if urlsplit(one).netloc]
        found += [f"{path.relative_to(site)}: {DIAGRAMS}"] if DIAGRAMS in text else []
    return found


def main(site: Path) -> int:
    """Print the findings."""
    found = foreign(site)
    print(
        "\n".join(["loaded from another host:", *found])
        if found
        else f"{site}: no resource is loaded from another host"
    )
    return bool(found) or not (site / "index.html").is_file()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
