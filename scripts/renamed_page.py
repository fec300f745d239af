"""Renamed: docs/renamed.md from the table of renames. Usage: python scripts/renamed_page.py > docs/renamed.md."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

TABLE = Path(__file__).parents[1] / "docs" / "decisions" / "0057-renames.tsv"
SCOPES = {
    "command": "Commands",
    "option": "Options",
    "setting": "Settings",
    "metric": "Metrics",
    "table": "Tables",
    "column": "Columns",
    "part": "Parts of columns and values",
    "field": "Fields",
    "route": "Routes",
    "file": "Files",
}


class Rename(NamedTuple):
    """One row of the table."""

    scope: str
    old: str
    new: str
    where: str


def renames() -> list[Rename]:
    """All rows, in order."""
    lines = TABLE.read_text().splitlines()[1:]
    return [Rename(*line.split("\t")) for line in lines]


def page() -> Iterator[str]:
    """Lines of the page: what outsiders type or read; identifiers and modules are left out."""
    yield "# Renamed"
    yield ""
    yield "Old names and those that replaced them. No old name is accepted. `scripts/renamed_page.py` writes this page."
    for scope, heading in SCOPES.items():
        rows = sorted({(one.old, one.new, one.where) for one in renames() if one.scope == scope})
        if rows:
            yield from ("", f"## {heading}", "", "| old | new | where |", "| --- | --- | --- |")
            yield from (f"| `{old}` | `{new}` | {where} |" for old, new, where in rows)


if __name__ == "__main__":
    sys.stdout.write("\n".join(page()) + "\n")
