"""Structure: what `make structure` prints of folders, names, functions and docstrings; exit 1 beyond a limit.

Usage: python scripts/structure.py [ROOT]
"""

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

PACKAGES = ("ingest", "features", "models", "advisor", "cohabit")
MAX_MODULES = 15
GROWING = ("cohabit/cli", "advisor/ui/views", "advisor/plans", "cohabit/billing", "ingest/decode")
MAX_GROWING = 10
MAX_CODE_LINES = 40
MIN_DOCSTRINGS = 0.94
FACES = ("advisor/api/", "advisor/ui/", "cohabit/cli/")
SHARED_NAMES = frozenset({"errors", "schema", "tables", "store", "main"})

Functions = list[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]


def modules(root: Path) -> dict[str, ast.Module]:
    """Syntax trees of all product modules by path, `__init__` and migrations left out."""
    paths = sorted(path for package in PACKAGES for path in (root / package).rglob("*.py"))
    named = {path.relative_to(root).as_posix(): path for path in paths if path.name != "__init__.py"}
    return {name: ast.parse(path.read_text()) for name, path in named.items() if "/migrations/" not in name}


def folders(names: Iterator[str]) -> dict[str, int]:
    """Modules directly in each folder."""
    counts: dict[str, int] = defaultdict(int)
    for name in names:
        counts[name.rpartition("/")[0]] += 1
    return counts


def full_folders(counts: Mapping[str, int]) -> list[str]:
    """Folders with more modules than allowed."""
    limits = {folder: MAX_GROWING if folder in GROWING else MAX_MODULES for folder in counts}
    return [f"{folder}: {n} modules, limit {limits[folder]}" for folder, n in counts.items() if n > limits[folder]]


def circles(trees: Mapping[str, ast.Module]) -> list[str]:
    """Pairs of folders that reach each other by imports, at any level; type-checking imports do not count."""
    edges = {(a, b) for name, tree in trees.items() for a, b in _crossings(name, tree, trees)}
    reach: dict[str, set[str]] = defaultdict(set)
    for a, b in edges:
        reach[a].add(b)
    return sorted(f"{a} <-> {b}" for a, b in edges if a < b and a in _reached(reach, b))


def _crossings(name: str, tree: ast.Module, trees: Mapping[str, ast.Module]) -> Iterator[tuple[str, str]]:
    here = name.removesuffix(".py").split("/")
    for target in _imported(tree):
        there = target.split(".")
        if "/".join(there) + ".py" not in trees:
            continue
        same = next(i for i, (a, b) in enumerate(zip(here, there, strict=False)) if a != b or i + 1 == len(here))
        if here[: same + 1] != there[: same + 1]:
            yield "/".join(here[: same + 1]), "/".join(there[: same + 1])


def _imported(tree: ast.Module) -> Iterator[str]:
    skipped = {id(node) for test in ast.walk(tree) if _type_checking(test) for node in ast.walk(test)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and id(node) not in skipped:
            yield node.module
            yield from (f"{node.module}.{one.name}" for one in node.names)


def _type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _reached(reach: Mapping[str, set[str]], start: str) -> set[str]:
    seen, left = {start}, [start]
    while left:
        new = reach.get(left.pop(), set()) - seen
        seen |= new
        left += new
    return seen


def repeated_names(names: Iterator[str]) -> list[str]:
    """Base names of modules that stand twice, outside the faces and the shared names."""
    places: dict[str, list[str]] = defaultdict(list)
    for name in names:
        places[Path(name).stem].append(name)
    return [
        f"{stem}: {', '.join(found)}"
        for stem, found in sorted(places.items())
        if len(found) > 1 and stem not in SHARED_NAMES and not _one_noun(found)
    ]


def _one_noun(found: list[str]) -> bool:
    faces = [next((face for face in FACES if name.startswith(face)), name) for name in found]
    return set(faces) <= set(FACES) and len(set(faces)) == len(faces)


def functions(trees: Mapping[str, ast.Module]) -> Functions:
    """Every function and method, with the module that holds it."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [(name, node) for name, tree in trees.items() for node in ast.walk(tree) if isinstance(node, kinds)]


def long_functions(found: Functions, root: Path) -> list[str]:
    """Functions of too many lines of code; docstring, comments and blank lines are not counted."""
    return [
        f"{name}:{node.lineno} {node.name}: {lines} lines"
        for name, node in found
        if (lines := _code_lines(node, (root / name).read_text().splitlines())) > MAX_CODE_LINES
    ]


def _code_lines(node: ast.FunctionDef | ast.AsyncFunctionDef, text: list[str]) -> int:
    body = node.body[1:] if ast.get_docstring(node) else node.body
    if not body or node.end_lineno is None:
        return 0
    lines = (line.strip() for line in text[body[0].lineno - 1 : node.end_lineno])
    return sum(bool(line) and not line.startswith("#") for line in lines)


def broad_excepts(trees: Mapping[str, ast.Module]) -> list[str]:
    """Handlers of every error: bare, Exception or BaseException."""
    handlers = ((name, node) for name, tree in trees.items() for node in ast.walk(tree))
    return [f"{name}:{node.lineno}" for name, node in handlers if isinstance(node, ast.ExceptHandler) and _broad(node)]


def _broad(handler: ast.ExceptHandler) -> bool:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(
        kind is None or (isinstance(kind, ast.Name) and kind.id in ("Exception", "BaseException")) for kind in kinds
    )


def docstring_share(found: Functions) -> float:
    """Share of public functions with a docstring."""
    public = [node for _, node in found if not node.name.startswith("_")]
    return sum(ast.get_docstring(node) is not None for node in public) / len(public)


def main(root: Path) -> int:
    """Print each measure and what exceeds its limit; 1 if anything does."""
    trees = modules(root)
    counts, found = folders(iter(trees)), functions(trees)
    share = docstring_share(found)
    measures = {
        f"folders over {MAX_MODULES} modules, or over {MAX_GROWING} in {', '.join(GROWING)}": full_folders(counts),
        "folders in circles": circles(trees),
        "base names repeated outside the rule": repeated_names(iter(trees)),
        f"functions over {MAX_CODE_LINES} lines of code": long_functions(found, root),
        "broad excepts": broad_excepts(trees),
    }
    print(f"{len(trees)} modules in {len(counts)} folders, at most {max(counts.values())} in one")
    for name, faults in measures.items():
        print(f"{len(faults)} {name}", *faults, sep="\n  ")
    print(f"{share:.1%} of public functions have a docstring, at least {MIN_DOCSTRINGS:.0%}")
    return int(any(measures.values()) or share < MIN_DOCSTRINGS)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else ".")))
