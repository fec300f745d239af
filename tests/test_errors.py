"""Errors of the five packages: a caller catches each class by name, or a table maps it to a status."""

import ast
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from textwrap import dedent

from advisor.api.app import STATUS

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("ingest", "features", "models", "advisor", "cohabit")
RUN_BY_ALEMBIC = "advisor.migrations"
MOST = 60

Errors = set[type[BaseException]]


def trees() -> dict[str, ast.Module]:
    """Syntax trees of all product modules, by module."""
    paths = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    return {".".join(path.relative_to(ROOT).with_suffix("").parts): ast.parse(path.read_text()) for path in paths}


def errors_of(modules: Iterable[str]) -> Errors:
    """Subclasses of BaseException that the five packages define, once these modules are imported."""
    for module in modules:
        if not module.startswith(RUN_BY_ALEMBIC) and not module.endswith("__main__"):
            import_module(module.removesuffix(".__init__"))
    return {kind for kind in _below(BaseException) if kind.__module__.partition(".")[0] in PACKAGES}


def _below(kind: type[BaseException]) -> Iterator[type[BaseException]]:
    for one in kind.__subclasses__():
        yield one
        yield from _below(one)


def caught(parsed: Iterable[ast.Module]) -> set[str]:
    """Names behind `except`; a tuple that has a name counts as what is in it."""
    nodes = [node for tree in parsed for node in ast.walk(tree)]
    tuples = {
        target.id: node.value
        for node in nodes
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    direct = {name for node in nodes if isinstance(node, ast.ExceptHandler) and node.type for name in _names(node.type)}
    return direct | {name for used in direct & tuples.keys() for name in _names(tuples[used])}


def _names(node: ast.AST) -> Iterator[str]:
    return (one.id for one in ast.walk(node) if isinstance(one, ast.Name))


def only_messages(errors: Errors, parsed: Iterable[ast.Module]) -> list[str]:
    """Errors that are no more than a message: no caller catches them by name, and no status is mapped to them."""
    known = caught(parsed)
    return sorted(kind.__qualname__ for kind in errors if kind.__name__ not in known and kind not in STATUS)


def test_each_error_is_caught_by_name_or_has_a_status() -> None:
    parsed = trees()
    errors = errors_of(parsed)

    assert only_messages(errors, parsed.values()) == []
    assert 0 < len(errors) <= MOST
    assert len({kind.__name__ for kind in errors}) == len(errors), "two errors share a name"


def test_an_error_that_no_caller_catches_is_found() -> None:
    class Caught(Exception): ...

    class CaughtInTuple(Exception): ...

    class Raised(Exception): ...

    source = """
    ABSENT = (CaughtInTuple, OSError)
    UNUSED = (Raised,)
    try:
        pass
    except Caught:
        raise Raised
    except ABSENT:
        raise
    """
    errors: Errors = {Caught, CaughtInTuple, Raised, *STATUS}

    assert [name.rpartition(".")[2] for name in only_messages(errors, [ast.parse(dedent(source))])] == ["Raised"]
