"""The site of docs/: every page has a place in it, and what a page would load from elsewhere is found."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("site_check", ROOT / "scripts" / "site_check.py")
assert spec is not None
assert spec.loader is not None
site_check = importlib.util.module_from_spec(spec)
spec.loader.exec_module(site_check)


def test_every_page_has_its_place() -> None:
    nav = re.findall(r"\S+\.md$", (ROOT / "mkdocs.yml").read_text(), flags=re.MULTILINE)
    pages = [str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")]
    made = {"index.md", "changelog.md", "contributing.md"}

    assert sorted(nav) == sorted({page for page in pages if not page.startswith("decisions/")} | made)


@pytest.mark.parametrize(
    ("page", "found"),
    [
        ('<script src="https://a.example/x.js"></script>', "https://a.example/x.js"),
        ('<link rel="stylesheet" href="//a.example/x.css">', "//a.example/x.css"),
        ("<style>@font-face{src:url(https://a.example/f.woff2)}</style>", "https://a.example/f.woff2"),
        ('<p style="background:url(http://a.example/i.png)">', "http://a.example/i.png"),
        ('<img srcset="x.png 1x, https://a.example/y.png 2x">', "https://a.example/y.png"),
        ('<pre class="mermaid">', 'class="mermaid"'),
        ('<a href="https://a.example/">elsewhere</a><img src="images/x.png"><code>https://a.example</code>', None),
    ],
)
def test_what_is_loaded_from_elsewhere_is_found(tmp_path: Path, page: str, found: str | None) -> None:
    (tmp_path / "index.html").write_text(page)

    assert site_check.foreign(tmp_path) == ([f"index.html: {found}"] if found else [])
