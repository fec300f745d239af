"""Rename identifiers by a table: `python scripts/rename_identifiers.py TABLE PATH...`, with libcst on the path.

TABLE has tab-separated rows `path, scope, old, new`. `path` is a glob of files. An empty scope renames every identifier of
these files: names, attributes, keywords, parameters, imports. A dotted scope (`Class.method`) renames names and
parameters inside that function alone, and `@` renames attributes, keywords and class members alone. The first row that
matches wins; rows with a scope come before those without.
"""

import sys
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

import libcst as cst


class Row(NamedTuple):
    """One row of the table."""

    path: str
    scope: str
    old: str
    new: str


def read(table: Path) -> list[Row]:
    """Rows, those with a scope first."""
    lines = (line.split("#")[0].rstrip() for line in table.read_text().splitlines())
    rows = [Row(*line.split("\t")) for line in lines if line.strip() and not line.startswith("path\t")]
    return sorted(rows, key=lambda row: (not row.scope, row.path == "*"))


class Renamer(cst.CSTTransformer):
    """Renames the identifiers of one file."""

    def __init__(self, rows: list[Row]) -> None:
        self.rows, self.stack = rows, list[str]()
        self.members, self.seen, self.clashes = set[int](), set[str](), set[str]()

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        self.stack.append(node.name.value)
        for line in node.body.body:
            for one in line.body if isinstance(line, cst.SimpleStatementLine) else ():
                target = one.target if isinstance(one, cst.AnnAssign) else None
                if isinstance(target, cst.Name):
                    self.members.add(id(target))
            if isinstance(line, cst.FunctionDef):
                self.members.add(id(line.name))

    def leave_ClassDef(self, original_node: cst.ClassDef, updated_node: cst.ClassDef) -> cst.ClassDef:
        self.stack.pop()
        return updated_node

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        self.stack.append(node.name.value)

    def leave_FunctionDef(self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef) -> cst.FunctionDef:
        self.stack.pop()
        return updated_node

    def visit_Attribute(self, node: cst.Attribute) -> None:
        self.members.add(id(node.attr))

    def visit_Arg(self, node: cst.Arg) -> None:
        if node.keyword is not None:
            self.members.add(id(node.keyword))

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.Name:
        member, name, here = id(original_node) in self.members, original_node.value, ".".join(self.stack)
        self.seen.add(name)
        for row in self.rows:
            if row.old != name:
                continue
            inside = here == row.scope or here.startswith(row.scope + ".")
            if not row.scope or (member if row.scope == "@" else inside and not member):
                self.clashes.add(row.new)
                return updated_node.with_changes(value=row.new)
        return updated_node


def main(table: Path, paths: list[Path]) -> None:
    """Rename in every file, and print where a new name was there before."""
    rows = read(table)
    for path in paths:
        text = path.read_text()
        mine = [row for row in rows if fnmatch(path.as_posix(), row.path) and row.old in text]
        if not mine:
            continue
        renamer = Renamer(mine)
        path.write_text(cst.parse_module(text).visit(renamer).code)
        for name in sorted(renamer.clashes & renamer.seen):
            print(f"{path}: {name} was there before")


if __name__ == "__main__":
    main(Path(sys.argv[1]), list(map(Path, sys.argv[2:])))
