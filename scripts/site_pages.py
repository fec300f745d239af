"""Pages of the site that are no files of docs/: README, the changelog and how to contribute.

A hook of mkdocs. A link that leaves docs/ leads to one of these pages, or becomes a path in text if it has no page; a
path that does not exist fails the build.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

OUTSIDE = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
"""Files of the repository that are pages of the site, and how they are called there."""
DECISIONS = "decisions/README.md"
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")
CODE = re.compile(r"(^```.*?^```|`[^`\n]*`)", flags=re.DOTALL | re.MULTILINE)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Decisions go to the end of the navigation, in their order."""
    found = sorted(Path(config.docs_dir, "decisions").glob("[0-9]*.md"))
    config.nav = [*(config.nav or []), {"Decisions": [DECISIONS, *(f"decisions/{path.name}" for path in found)]}]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what is not in docs/."""
    root = Path(config.docs_dir).parent
    for source, page in OUTSIDE.items():
        files.append(File.generated(config, page, content=(root / source).read_text()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, **_: object) -> str:
    """Links as the site has them; what is code is left alone."""
    root, at = Path(config.docs_dir).parent, page.file.src_uri
    written = {name: source for source, name in OUTSIDE.items()}.get(at, f"docs/{at}")

    def led(found: re.Match[str]) -> str:
        return _led(found, root, written, at)

    return "".join(part if n % 2 else LINK.sub(led, part) for n, part in enumerate(CODE.split(markdown)))


def _led(link: re.Match[str], root: Path, written: str, at: str) -> str:
    """A link, as the site has it.

    Args:
        link: as it is written.
        root: of the repository.
        written: the file that has it, from the root.
        at: the page, from the site's root.
    """
    image, text, target, anchor = link.groups()
    if "://" in target:
        return link[0]
    path = posixpath.normpath(posixpath.join(posixpath.dirname(written), target))
    if path.startswith("docs/") and (root / path).is_file():
        return _link(image, text, path.removeprefix("docs/"), anchor, at)
    if path == "docs/decisions":
        return _link(image, text, DECISIONS, anchor, at)
    if path in OUTSIDE:
        return _link(image, text, OUTSIDE[path], anchor, at)
    if not (root / path).exists():
        raise PluginError(f"{written} links to {target}, which does not exist")
    return f"{text} (`{path}`)"


def _link(image: str, text: str, page: str, anchor: str | None, at: str) -> str:
    return f"{image}[{text}]({posixpath.relpath(page, posixpath.dirname(at) or '.')}{anchor or ''})"


def _decisions(folder: Path) -> str:
    rows = [f"- [{path.read_text().splitlines()[0].lstrip('# ')}]({path.name})" for path in sorted(folder.glob("*.md"))]
    return "# Decisions\n\nEach record has the context, the decision and its consequences.\n\n" + "\n".join(rows)
