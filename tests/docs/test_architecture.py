"""The pictures of docs/architecture.md agree with the code: every room, module, function, call and table handover."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
PACKAGES = ("ingest", "features", "models", "advisor", "cohabit")
WALKS = ("Usage record to score", "Extender request to reply", "Usage row to statement line")
STEP = re.compile(r"^(?:(start|calls|table \w+|file) +)?([a-z_0-9/]+\.py): ([\w.]+)$")
WRITES = {"append", "replace", "stage"}
READS = {"read", "rows", "pieces", "files"}
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class Step(NamedTuple):
    """A line of a walk."""

    arrow: str
    module: str
    function: str


def blocks(title: str) -> str:
    found = re.search(rf"^### {title}\n.*?```text\n(.*?)```", PAGE, flags=re.MULTILINE | re.DOTALL)
    assert found is not None, f"docs/architecture.md has no picture {title!r}"
    return found[1]


def steps_in(picture: str) -> list[Step]:
    found = []
    for line in filter(str.strip, picture.splitlines()):
        step = STEP.match(line.split("  #")[0].strip())
        assert step is not None, f"no step: {line!r}"
        found.append(Step(*(part or "" for part in step.groups())))
    return found


@dataclass(frozen=True)
class Module:
    """What a module defines, what each definition refers to, and what the module imports."""

    definitions: dict[str, ast.AST]
    refers: dict[str, frozenset[str]]
    imports: frozenset[str]
    calls: tuple[ast.Call, ...]

    def reach(self, name: str) -> set[str]:
        """All names that a definition refers to, by way of other definitions of the module too."""
        seen, todo = set[str](), [name]
        while todo:
            one = todo.pop()
            if one in seen:
                continue
            seen.add(one)
            todo += [other for other in self.refers.get(one, ()) if other not in seen]
        return seen - {name}


@cache
def module(path: str) -> Module:
    tree = ast.parse((ROOT / path).read_text())
    named = dict(_named(tree))
    imports = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    imports |= {
        f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    calls = tuple(node for node in ast.walk(tree) if isinstance(node, ast.Call))
    return Module(
        {name: node for name, node in named.items() if isinstance(node, DEFINITIONS)},
        {name: _names(node) for name, node in named.items()},
        frozenset(imports),
        calls,
    )


def _named(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    for node in tree.body:
        if isinstance(node, DEFINITIONS):
            yield node.name, node
        if isinstance(node, ast.ClassDef):
            for method in node.body:
                if isinstance(method, DEFINITIONS):
                    yield f"{node.name}.{method.name}", method
                    yield method.name, method
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from ((target.id, node) for target in targets if isinstance(target, ast.Name))


def _names(node: ast.AST) -> frozenset[str]:
    own = getattr(node, "name", "")
    found = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    found |= {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)}
    return frozenset(found - {own})


def dotted(path: str) -> str:
    return path.removesuffix(".py").replace("/", ".")


def connected(before: Step, after: Step) -> bool:
    """Whether the earlier function refers to the later one, in a module that imports it or is the same."""
    here = module(before.module)
    imported = before.module == after.module or any(name.startswith(dotted(after.module)) for name in here.imports)
    return imported and after.function.rpartition(".")[2] in here.reach(before.function)


def touches(path: str, table: str, verbs: set[str]) -> bool:
    """Whether a module calls one of the verbs with the table, by name or by its constant."""
    for call in module(path).calls:
        if not isinstance(call.func, ast.Attribute) or call.func.attr not in verbs or not call.args:
            continue
        first = call.args[0]
        named = isinstance(first, ast.Constant) and first.value == table
        if named or table.upper() in _names(first):
            return True
    return False


def mentions(path: str, table: str) -> bool:
    return any(table.upper() in names for names in module(path).refers.values())


def writes(earlier: list[Step], table: str) -> bool:
    """Whether a module writes the table; a table named by its rows is mentioned in one module, landed in another."""
    paths = {step.module for step in earlier}
    if any(touches(path, table, WRITES) for path in paths):
        return True
    appends = any(
        isinstance(call.func, ast.Attribute) and call.func.attr == "land" and "table" in _names(call.args[0])
        for path in paths
        for call in module(path).calls
        if call.args
    )
    return appends and any(mentions(path, table) for path in paths)


def problem(earlier: list[Step], step: Step, later: list[Step]) -> str:
    """Why a step does not follow from those before it; empty if it does."""
    if step.arrow in {"", "start"}:
        return "" if not earlier or step.arrow == "start" else "a step without an arrow"
    if step.arrow == "calls":
        return "" if any(connected(before, step) for before in earlier) else "no earlier step calls it"
    rest = [step, *later[: next((n for n, one in enumerate(later) if one.arrow not in {"calls"}), len(later))]]
    if step.arrow == "file":
        written = {one.module for one in earlier} & {one.module for one in rest}
        return "" if written else "no module of an earlier step writes what is read here"
    table = step.arrow.removeprefix("table ")
    if not writes(earlier, table):
        return f"no earlier step writes table {table}"
    return "" if any(touches(one.module, table, READS) for one in rest) else f"table {table} is not read"


def problems(steps: list[Step]) -> list[str]:
    found = []
    for number, step in enumerate(steps):
        if step.function not in (module(step.module).definitions if (ROOT / step.module).is_file() else {}):
            found.append(f"{step.module}: {step.function} is not there")
        elif reason := problem(steps[:number], step, steps[number + 1 :]):
            found.append(f"{step.module}: {step.function}: {reason}")
    return found


@pytest.mark.parametrize("title", WALKS)
def test_every_step_follows_from_an_earlier_one(title: str) -> None:
    assert problems(steps_in(blocks(title))) == []


def test_a_walk_that_is_not_so_is_found() -> None:
    steps = steps_in(blocks(WALKS[0]))
    places = [number for number, step in enumerate(steps) if step.arrow == "calls"]

    gone = [*steps[:2], steps[2]._replace(function="nothing_of_this_name"), *steps[3:]]
    unconnected = [steps[0], steps[places[-1]]]
    unwritten = [steps[0], *(step for step in steps if step.arrow.startswith("table"))]

    assert all(problems(walk) for walk in (gone, unconnected, unwritten))


def test_the_table_of_rooms_is_the_folders_of_the_code() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \|", PAGE, flags=re.MULTILINE)
    named = {(package, room) for package, cell in rows for room in re.findall(r"`(\w+)`", cell)}

    there = {
        (package, folder.name)
        for package in PACKAGES
        for folder in (ROOT / package).iterdir()
        if (folder / "__init__.py").exists()
    }
    assert named == there
