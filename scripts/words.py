"""Words: count the words of section Never of `docs/glossary.md`; exit 1 where more are found than are left to replace.

Usage: python scripts/words.py [ROOT]. Identifiers are split at underscores and capitals first.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

PLACES = ("ingest", "features", "models", "advisor", "cohabit", "airflow_dags", "deploy", "docs", "scripts")
PAGES = ("README.md", "CONTRIBUTING.md")
EXEMPT = ("docs/glossary.md", "docs/renamed.md", "docs/decisions/", "scripts/words.py", "scripts/same_")
KINDS = frozenset({".py", ".md", ".html", ".yaml", ".env", ".json", ".js", ".css", ".sh", ".svg", ".Containerfile"})
LEFT = 11
"""`tell` is a method of files (5), `kin` is in the name of decision 0032 (5); a hash of `withheld` draws the holdout
(1): another text would draw other pods."""


def never(glossary: str) -> re.Pattern[str]:
    """The words of section Never, as one pattern."""
    section = glossary.partition("## Never")[2].partition("## Preferred")[0]
    words = re.findall(r'"[^"]+"|[a-z]+\*?', section.split("\n\n")[2])
    parts = (word.strip('"').replace("*", r"\w*").replace(" ", r"\s+") for word in words)
    return re.compile(rf"\b({'|'.join(parts)})\b", re.IGNORECASE)


def texts(root: Path) -> Iterator[tuple[str, str]]:
    """Name and content of every file that people read."""
    found = [path for place in PLACES for path in sorted((root / place).rglob("*")) if path.suffix in KINDS]
    for path in [*found, *(root / page for page in PAGES)]:
        name = path.relative_to(root).as_posix()
        if not name.startswith(EXEMPT) and "/vendor/" not in name:
            yield name, path.read_text()


def split(text: str) -> str:
    """A text with the words of identifiers apart."""
    return re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", text).replace("_", " ")


def main(root: Path) -> int:
    """Print how often each word stands in each place; 1 if that is more than are left."""
    pattern = never((root / "docs" / "glossary.md").read_text())
    words, places = Counter[str](), Counter[str]()
    for name, text in texts(root):
        found = [word.lower() for word in pattern.findall(split(text))]
        words.update(found)
        places[name.split("/")[0]] += len(found)
    total = words.total()
    print(f"{total} words that are never used, at most {LEFT}")
    print("  by place:", ", ".join(f"{place} {n}" for place, n in places.most_common() if n))
    print("  by word:", ", ".join(f"{word} {n}" for word, n in words.most_common(12)))
    return int(total > LEFT)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else ".")))
