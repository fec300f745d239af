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


def shown(one: Rename, every: set[str]) -> bool:
    """Whether a row is on the page: of a metric its name in Prometheus, none of its series; no types of OpenAPI."""
    return one.where != "OpenAPI" and (
        one.scope != "metric"
        or not (f"{one.old}_total" in every or one.old.endswith(("_seconds_bucket", "_seconds_count", "_seconds_sum")))
    )


def page() -> Iterator[str]:
    """Lines of the page: what outsiders type or read; identifiers and modules are left out."""
    yield "# Renamed"
    yield ""
    yield "Old names and those that replaced them. No old name is accepted. `scripts/renamed_page.py` writes this page."
    every = {one.old for one in renames()}
    for scope, heading in SCOPES.items():
        rows = sorted({(one.old, one.new, one.where) for one in renames() if one.scope == scope and shown(one, every)})
        if rows:
            yield from ("", f"## {heading}", "", "| old | new | where |", "| --- | --- | --- |")
            yield from (f"| `{old}` | `{new}` | {where} |" for old, new, where in rows)


if __name__ == "__main__":
    sys.stdout.write("\n".join(page()) + "\n")
