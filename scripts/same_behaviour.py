"""Same behaviour: the whole line of two checkouts, run with the same clock and chance, compared by a map of names.

In: a checkout, or two finished runs. Out: `same: ok`, or every difference by artefact and place, and exit 1.

    python scripts/same_behaviour.py [--base HASH]               # this checkout beside an older one
    python scripts/same_behaviour.py run CHECKOUT OUT            # one run, kept in a folder
    python scripts/same_behaviour.py compare OUT_A OUT_B         # two kept runs
    python scripts/same_behaviour.py --control OUT               # does compare notice?
"""

import argparse
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import zip_longest
from pathlib import Path

import msgspec
import numpy as np
import onnx
import pyarrow as pa
import pyarrow.parquet as pq
from same_records import DRAWN, PROSE, Back, Names, record_of
from same_run import recipe, run

BASE = "1ee7103"
"""The commit before the renaming."""
HERE = Path(__file__).resolve().parent
FOREIGN = re.compile(r"\.(key|pub|lock|token|sha256)$|^backup/(?!backup\.json)|^backup/backup\.json$|-(wal|shm)$")
"""Not compared: keys, which the machine draws; tokens, digests and copies of what is compared elsewhere."""


SPLIT = re.compile(
    r"kept/help_(review.*|store|token|bill|backup|config|models?|plan|dev|admin|admin_[a-z]+|.*explain|.*reproduce)\.help|work/docs/reference/cli\.md"
)
"""Help of commands that were split, moved under a noun, or are new, and the page that repeats all help."""


REWORDED = {
    "people /ui/victims/": frozenset({"40"}),  # "0.40 is four tenths" became "0.40 adds 40 %"
    "numbers of .paths./readyz": frozenset({"0", "200", "503"}),
    "numbers": frozenset(
        {"0", "1,800,000", "1,800"}
    ),  # "apps without any other node": "apps with 0 points on all nodes"
}
"""Numbers in sentences that were written anew, by the beginning of the place; a figure that changed has others."""


def artefacts(out: Path, names: Names) -> dict[str, list[Path]]:
    """Files of a run by the artefact that they are part of, in old names."""
    back, found = names.reader(), dict[str, list[Path]]()
    for root in (out / "work", out / "kept"):
        for folder, _, files in os.walk(root):
            for path in (Path(folder) / file for file in files):
                inside = path.relative_to(root).as_posix()
                if path.is_file() and not path.is_symlink() and not FOREIGN.search(inside):
                    found.setdefault(f"{root.name}/{back.path(inside)}", []).append(path)
    return {name: sorted(paths) for name, paths in found.items()}


def names_of(out: Path, given: Path | None = None) -> Names:
    """The map that a run was made with, or another one that is given."""
    return Names.read(given or out / "renames.tsv")


def differences(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Places at which two records differ, with the first line that does, as it was and as it is."""
    for place in sorted({*old, *new}):
        was, now = old.get(place), new.get(place)
        if was == now or (place.startswith(DRAWN) and (was is None or now is None)):
            continue
        before, after = ([] if text is None else text.split("\n") for text in (was, now))
        if "numbers" in place and _reworded(place, before, after):
            continue
        pairs = list(zip_longest(before, after, fillvalue="nothing"))
        at, (one, other) = next((at, pair) for at, pair in enumerate(pairs) if pair[0] != pair[1])
        same = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0)
        shown = slice(max(0, same - 40), same + 80)
        yield f"{place}, line {at + 1} of {len(before)}", one[shown], other[shown]


def _reworded(place: str, before: Sequence[str], after: Sequence[str]) -> bool:
    """Whether nothing but numbers of sentences that were written anew has changed."""
    was, now = Counter(before), Counter(after)
    allowed = next((numbers for of, numbers in REWORDED.items() if of in place), frozenset())
    return bool(allowed) and {*(was - now), *(now - was)} <= allowed


def compare(old: Path, new: Path, *, renames: Path | None, prose: bool) -> int:
    """Compare two runs; prints what differs, and is 1 where something does that has to be the same."""
    names = names_of(new, renames)
    left, right = artefacts(old, names), artefacts(new, names)
    backs, wrong, rewritten, both = [names.reader()] * 2, 0, set[str](), sorted({*left} & {*right})
    for name in sorted({*left} ^ {*right}):
        if SPLIT.fullmatch(name):
            continue
        wrong += 1
        say(f"{name}: only in the {'new' if name in right else 'old'} run")
    with ProcessPoolExecutor(2) as pool:
        compared = pool.map(partial(_compared, backs), [(left[name], right[name]) for name in both], chunksize=8)
        for name, found in zip(both, compared, strict=True):
            if SPLIT.fullmatch(name):
                continue
            for place, was, now in found:
                if place.startswith(PROSE) and not prose:
                    rewritten.add(name)
                    continue
                wrong += 1
                say(f"{name}: {place}\n  old: {was}\n  new: {now}")
    if rewritten:
        say(f"prose differs: {len(rewritten)} artefacts")
    size = sum(path.stat().st_size for paths in left.values() for path in paths)
    say(f"differences: {wrong}" if wrong else f"same: ok ({len(left)} artefacts, {size:,} bytes)")
    return 1 if wrong else 0


def _compared(backs: Sequence[Back], parts: Sequence[Sequence[Path]]) -> list[tuple[str, str, str]]:
    return list(differences(*(record_of(paths, back) for paths, back in zip(parts, backs, strict=True))))


def say(line: str) -> None:
    """A line of the result."""
    sys.stdout.write(line + "\n")


def compare_with(base: str, *, prose: bool) -> int:
    """Run this checkout and an older one, or take the older one's kept run, and compare."""
    repository = HERE.parent
    git = ["git", "-C", str(repository)]
    commit = subprocess.run([*git, "rev-parse", base], capture_output=True, text=True, check=True).stdout.strip()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    kept = Path(os.environ.get("COHABIT_CACHE") or cache) / "cohabit" / "same" / f"{commit[:12]}-{recipe()}"
    with tempfile.TemporaryDirectory() as folder:
        if not (kept / "done").exists():
            shutil.rmtree(kept, ignore_errors=True)
            tree = Path(folder) / "base"
            subprocess.run([*git, "worktree", "add", "--detach", "--quiet", str(tree), commit], check=True)
            try:
                run(tree, kept)
            finally:
                subprocess.run([*git, "worktree", "remove", "--force", str(tree)], check=True)
        new = Path(folder) / "new"
        run(repository, new)
        return compare(kept, new, renames=None, prose=prose)


SPOTS = {
    ".svg": r"(?<=>)\d",
    ".help": r"(?<=--hel)p",
    ".md": r"(?<=^\| `)\w",
    ".toml": r"(?<== )\d",
}
"""What is changed in texts of which a part may be written anew; elsewhere the last digit."""


def another(text: str, kind: str = "") -> str:
    """The text with one character changed."""
    spot = re.compile(SPOTS.get(kind, r"\d(?=\D*\Z)"), re.MULTILINE)
    return spot.sub(lambda found: "8" if found[0] == "7" else "7", text, count=1)


def spoil(path: Path) -> None:
    """Change one value in a file, in place."""
    match path.suffix:
        case ".parquet":
            pq.write_table(spoilt(pq.ParquetFile(path).read()), path)
        case ".arrow":
            table = spoilt(pa.ipc.open_file(pa.BufferReader(path.read_bytes())).read_all())
            with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table)
        case ".inputs":
            whole = path.read_bytes()
            end = 8 + int.from_bytes(whole[:8], "big")
            sink = pa.BufferOutputStream()
            pq.write_table(spoilt(pq.read_table(pa.BufferReader(whole[8:end]))), sink)
            part = sink.getvalue().to_pybytes()
            path.write_bytes(len(part).to_bytes(8, "big") + part + whole[end:])
        case ".npy":
            array = np.load(path)
            array.flat[0] = array.flat[0] + 1
            np.save(path, array)
        case ".onnx":
            model = onnx.load(path)
            tensor = next(one.t for one in model.graph.node[0].attribute if one.name == "leaf_weights")
            weights = onnx.numpy_helper.to_array(tensor).copy()
            weights[0] = np.nextafter(weights[0], weights.dtype.type(9))
            tensor.CopyFrom(onnx.numpy_helper.from_array(weights, tensor.name))
            onnx.save(model, path)
        case ".sqlite":
            with sqlite3.connect(path) as store:
                store.execute("UPDATE tokens SET created_us = created_us + 1 WHERE rowid = 1")
        case ".msgpack":
            text = json.dumps(msgspec.msgpack.decode(path.read_bytes()))
            path.write_bytes(msgspec.msgpack.encode(json.loads(another(text))))
        case _:
            path.write_text(another(path.read_text(), path.suffix))


def spoilt(table: pa.Table) -> pa.Table:
    """The table with its first number a little larger."""
    at = next(i for i, kind in enumerate(table.schema.types) if pa.types.is_floating(kind) or pa.types.is_integer(kind))
    values = table.column(at).to_pylist()
    row = next(i for i, value in enumerate(values) if value is not None)
    values[row] += 1
    return table.set_column(at, table.schema.field(at), pa.array(values, table.schema.types[at]))


def control(out: Path) -> int:
    """Change one value in an artefact of each kind, and see whether comparing notices."""
    names = names_of(out)
    back, kinds = names.reader(), dict[str, tuple[str, list[Path]]]()
    for name, paths in sorted(artefacts(out, names).items()):
        if not name.startswith("work/lake") or "/usage/" in name:
            kinds.setdefault(paths[0].suffix or "no suffix", (name, paths))
    noticed = 0
    with tempfile.TemporaryDirectory() as folder:
        for kind, (name, paths) in kinds.items():
            copy = Path(folder) / paths[0].name
            shutil.copy(paths[0], copy)
            spoil(copy)
            records = record_of(paths, back), record_of([copy, *paths[1:]], back)
            found = [place for place, _, _ in differences(*records) if not place.startswith(PROSE)]
            noticed += bool(found)
            say(f"{kind}, {name}: {found[0] if found else 'NOT NOTICED'}")
    say(f"control: {noticed} of {len(kinds)} noticed")
    return 0 if noticed == len(kinds) else 1


def main(words: Sequence[str]) -> int:
    """Do what was asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", default=BASE)
    parser.add_argument("--control", type=Path, metavar="OUT")
    parser.add_argument("--prose", action="store_true", help="fail where texts for people differ, too")
    commands = parser.add_subparsers(dest="command")
    one, two = commands.add_parser("run"), commands.add_parser("compare")
    one.add_argument("checkout", type=Path)
    one.add_argument("out", type=Path)
    two.add_argument("old", type=Path)
    two.add_argument("new", type=Path)
    two.add_argument("--renames", type=Path)
    two.add_argument("--prose", action="store_true")
    asked = parser.parse_args(words)
    if asked.control is not None:
        return control(asked.control)
    if asked.command == "run":
        run(asked.checkout.resolve(), asked.out.resolve())
        return 0
    if asked.command == "compare":
        return compare(asked.old, asked.new, renames=asked.renames, prose=asked.prose)
    return compare_with(asked.base, prose=asked.prose)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
