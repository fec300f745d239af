"""Records: what a run left behind, read into places and values that a renaming does not change.

In: a file of any kind that the line writes, and the map of names of the checkout that wrote it. Out: a record, text by
place, in the old names. What only names or paths decide is replaced by a placeholder, each by a rule of `MASKS`.
"""

import csv
import io
import json
import re
import sqlite3
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec
import numpy as np
import onnx
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

Record = dict[str, str]
PROSE = "prose: "
"""Begins the place of a text that may be written anew; its numbers are another place."""
DRAWN = "where drawn: "
"""Begins the place of what chance picks in two threads at once: it is compared where both runs picked it."""
SENTENCES = frozenset(
    {"reason", "why", "detail", "error", "message", "msg", "description", "summary", "title", "text", "rest"}
)
"""Fields whose values are sentences."""
UNSTABLE = re.compile(r"_table_|_seconds(_sum|_bucket)?$|_created$|^(process|python)_|_resident|_cpu_")
"""Metrics whose values are durations or tell of the process; their names and labels are compared."""
MASKS: Sequence[tuple[re.Pattern[str], str]] = (
    # digests and what is named by them: over bytes that hold names of columns; the bytes themselves are compared
    (re.compile(r"(?<![0-9a-f])(?=[0-9]*[a-f])[0-9a-f]{12,64}(?![0-9a-f])"), "<digest>"),
    (re.compile(r"\bp[0-9a-f]{8}-[0-9a-f]{8}\b"), "<plan>"),  # named by digests of the snapshot and of the rules
    # sizes of files that hold names
    (re.compile(r"[\d,.]+(?= bytes\b)|(?<=MB: )\d+ of \d+"), "<size>"),
    (re.compile(r"\b000[78]\b"), "<database version>"),
    (re.compile(r"(?<=127\.0\.0\.1:)\d+"), "<port>"),  # free ones are taken
    (re.compile(r"(?<=/)v\d+(?=/date=|/[0-9-]+\.parquet|/<)"), "<version>"),  # of a table's columns
    (re.compile(r"[\d.]+(?= ms\b)|(?<=origins; )\d+(?= s\b)"), "<duration>"),  # of answers, and of an evaluation
)
CODE = frozenset({"option", "command", "route", "identifier", "module", "part", "value"})
"""Scopes whose names stand in no record by themselves."""
SIZES = frozenset({"size", "size_bytes", "bytes", "format", "schema_version"})
"""Fields that hold sizes of files, or the version of their form; what is in the files is compared."""


def masked(text: str) -> str:
    """The text without what names or the machine alone decide."""
    for pattern, placeholder in MASKS:
        text = pattern.sub(placeholder, text)
    return text


@dataclass(frozen=True)
class Names:
    """The map of names: rows of scope, old and new."""

    rows: tuple[tuple[str, str, str], ...] = ()

    @classmethod
    def read(cls, path: Path) -> "Names":
        """Of a file of tab-separated rows with a header; empty where there is none."""
        lines = path.read_text().splitlines()[1:] if path.exists() else []
        rows = [line.split("\t") for line in lines if line.strip() and not line.startswith("#")]
        return cls(tuple((row[0], row[1], row[2]) for row in rows))

    def new(self, scope: str) -> dict[str, str]:
        """New names of a scope by the old ones."""
        return {old: new for kind, old, new in self.rows if kind == scope}

    def typed(self, words: Sequence[str]) -> list[str]:
        """A command as this checkout wants it typed: the longest one known, and options, named alone or after it."""
        commands, options = self.new("command"), self.new("option")
        if list(words[:1]) == ["review"] and "review" in commands:
            return _reviewed(words[1:])
        heads = [" ".join(words[:count]) for count in range(len(words), 0, -1)]
        known = next((head for head in heads if head in commands), None)
        typed = words if known is None else [*commands[known].split(), *words[len(known.split()) :]]
        own = {old.split()[-1]: new for old, new in options.items() if old.rpartition(" ")[0] in heads}
        return [own.get(word, options.get(word, word)) for word in typed]

    def routed(self, path: str) -> str:
        """A path as this checkout has it; a part in braces stands for any."""
        for old, new in sorted(self.new("route").items(), key=lambda row: -len(row[0])):
            begins, brace, ends = old.partition("{")
            if brace and path.startswith(begins) and path.endswith(ends.partition("}")[2]):
                return path.removesuffix(ends.partition("}")[2]) + new.partition("}")[2]
            if not brace and path.startswith(old):
                return new + path.removeprefix(old)
        return path

    def reader(self) -> "Back":
        """The way from old and new names to one that stands for both."""
        typed = [(f"cohabit {new}", f"cohabit {old}") for kind, old, new in self.rows if kind == "command"]
        said = [(new, old.split()[-1]) for kind, old, new in self.rows if kind == "option"]
        said += [(new, old) for kind, old, new in self.rows if kind == "route"]
        named = [(old, new) for kind, old, new in self.rows if kind not in CODE]
        born = [(f"{old}_created", f"{new}_created") for kind, old, new in self.rows if kind == "metric"]
        words = joined([*named, *born])
        parts = {new: old for kind, old, new in self.rows if kind == "part"}
        phrases = tuple(sorted([*typed, *said], key=lambda phrase: -len(phrase[0])))
        routes, files = self.new("route"), {new: old for kind, old, new in self.rows if kind in ("file", "table")}
        return Back(words, phrases, {new: old for old, new in routes.items()}, files, parts)


def joined(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """For every name of pairs the one that stands for all that pairs connect it with."""
    of: dict[str, str] = {}

    def root(name: str) -> str:
        while of.get(name, name) != name:
            name = of[name]
        return name

    for old, new in pairs:
        one, other = sorted((root(old), root(new)))
        of[one], of[other] = one, one
    return {name: root(name) for name in of}


def _reviewed(words: Sequence[str]) -> list[str]:
    """`review` was one command; now what is done with a plan is a word of its own."""
    if not words:
        return ["plan", "list"]
    plan, rest = words[0], list(words[1:])
    for option, verb, new in (("--approve", "approve", ["--steps"]), ("--reject", "reject", [])):
        if option in rest:
            at = rest.index(option)
            return ["plan", verb, plan, *new, rest[at + 1], *rest[:at], *rest[at + 2 :]]
    return ["plan", "show", plan, *rest]


@dataclass(frozen=True)
class Back:
    """From new names to old ones: of words, of phrases in texts, of routes by how they begin, and of files."""

    words: Mapping[str, str]
    phrases: tuple[tuple[str, str], ...]
    routes: Mapping[str, str]
    files: Mapping[str, str]
    parts: Mapping[str, str] = field(default_factory=dict)

    def whole(self, name: str) -> str:
        """A name without dots, as it stands for old and new."""
        for new, old in self.parts.items():
            if new in name:
                name = re.sub(rf"(?<![A-Za-z]){new}(?![A-Za-z])", old, name)
        return self.words.get(name, name)

    def word(self, name: str) -> str:
        """A whole name or value; a dotted or slashed one part by part."""
        if (old := self.whole(name)) != name:
            return masked(old)
        for new in sorted(self.routes, key=len, reverse=True):
            if name.startswith(new):
                return masked(self.routes[new] + name.removeprefix(new))
        if re.fullmatch(r"[A-Z]+ /\S*", name):
            method, _, route = name.partition(" ")
            return f"{method} {self.word(route)}"
        if self.words and re.fullmatch(r"[^\s./]+([./][^\s./]+)+", name):
            name = re.sub(r"[^./]+", lambda found: self.whole(found[0]), name)
        return masked(name)

    def text(self, text: str) -> str:
        """All names in a text."""
        for new, old in self.phrases:
            if new in text:
                text = re.sub(rf"(?<![\w-]){re.escape(new)}(?![\w-])", lambda _, old=old: old, text)  # type: ignore[misc]
        if not self.words:
            return text
        return re.sub(r"(?<![\w-])[A-Za-z_]\w*(?![\w-])", lambda found: self.whole(found[0]), text)

    def path(self, path: str) -> str:
        """Which artefact a file is part of: parts of a table in whatever hour are one."""
        parts = (re.match(r"(\.?[^.-]*)(.*)", part) for part in path.split("/"))
        old = (self.files.get(p[0]) or self.files.get(p[1], p[1]) + p[2] for p in parts if p is not None)
        named = re.sub(r"[\w-]+-\d+(?=(\.\d+)?\.jsonl$)", "<process>", "/".join(old))
        return re.sub(r"date=[\d-]+/hour=\d+/|(?<=/)v\d+/", "", masked(named))


def prose_of(text: str, back: Back) -> Record:
    """A text for people: every word that holds a digit, in order, and the text as a whole."""
    plain = masked(back.text(text))
    numbers = re.findall(r"[^\W_]*\d[\w.:,+-]*", plain)
    return {"numbers": "\n".join(n.rstrip(".:,-") for n in numbers), f"{PROSE}text": plain}


def html_of(text: str, back: Back) -> Record:
    """A page or figure: numbers of its text, and all of it."""
    shown = re.sub(r"<(script|style)\b.*?</\1>|<[^>]+>", " ", text, flags=re.DOTALL)
    return prose_of(unescape(shown), back) | {f"{PROSE}text": masked(back.text(text))}


def markdown_of(text: str, back: Back) -> Record:
    """A reference page: rows of its tables without sentences, in no order, and all of it."""
    rows = [line.split(" | ")[:-1] for line in text.splitlines() if line.startswith("| `")]
    plain = sorted(masked(back.text(" | ".join(cell for cell in row if cell.count(" ") < 3))) for row in rows)
    plain = [re.sub(r"see features[\w.]+", "see <module>", row) for row in plain]
    return {"rows": "\n".join(plain), f"{PROSE}text": masked(back.text(text))}


def help_of(text: str, back: Back) -> Record:
    """What --help tells: options with their types and defaults, in order, and all of it."""
    options = re.findall(
        r"--[a-z][\w-]*|<[a-z][a-z ]*>|\d+(?:\.\d+)?<=?x|x<=?\d+|\[default: [^\]]*\]|\[required\]", back.text(text)
    )
    options = sorted({re.sub(r"[\s│]+", " ", option) for option in options})
    return {"options": "\n".join(options), f"{PROSE}text": masked(back.text(text))}


def tree_of(value: Any, back: Back, at: str = "") -> Record:
    """JSON and what is like it: a place for every leaf, by keys in old names."""
    found: Record = {}
    for place, leaf in _leaves(value, back, at):
        key = re.sub(r"\[\d+\]$", "", place).rsplit(".", 1)[-1]
        if key in SIZES and (isinstance(leaf, int) or str(leaf).startswith("cohabit.export/")):
            found[place] = "<size>"
        elif key == "operationId":
            found[place] = "<named by the route>"
        elif key == "description" and ".components." in place:
            found[f"{PROSE}{place}"] = str(leaf)
        elif isinstance(leaf, str) and key in SENTENCES:
            found |= {f"{name} of {place}": text for name, text in prose_of(leaf, back).items()}
        else:
            found[place] = back.word(leaf) if isinstance(leaf, str) else repr(leaf)
    return found


def _leaves(value: Any, back: Back, at: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for key in value:
            yield from _leaves(value[key], back, f"{at}.{back.word(str(key))}")
    elif isinstance(value, list | tuple) and value:
        for index, one in enumerate(value):
            yield from _leaves(one, back, f"{at}[{index}]")
    else:
        yield at, value


def table_of(tables: Sequence[pa.Table], back: Back, *, ordered: bool) -> Record:
    """Rows by all their columns, columns by name, values to the last bit; unless in the order they are in."""
    table = pa.concat_tables(tables, promote_options="default")
    texts = {back.word(name): _texts(table[name], back) for name in table.column_names}
    columns = pa.table({name: texts[name] for name in sorted(texts)})
    if not ordered:
        columns = columns.sort_by([(name, "ascending") for name in columns.column_names])
    types = "\n".join(sorted(f"{back.word(field.name)}: {back.text(str(field.type))}" for field in table.schema))
    found = {f"column {name}": "\n".join(columns[name].to_pylist()) for name in columns.column_names}
    return found | {"types": types, "rows": str(table.num_rows)}


def _texts(column: pa.ChunkedArray, back: Back) -> pa.Array:
    column = column.combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_nested(column.type) or pa.types.is_binary(column.type):
        return pa.array([_struct(value, back) for value in column.to_pylist()], pa.string())
    if not pa.types.is_string(column.type):
        return pc.fill_null(pc.cast(column, pa.string()), "missing")
    coded = column.dictionary_encode()
    words = pa.array([_cell(word, back) for word in coded.dictionary.to_pylist()], pa.string())
    return pc.fill_null(words.take(coded.indices), "missing")


def _struct(value: Any, back: Back) -> str:
    """A list, a map or a struct, its fields by their old names."""
    if isinstance(value, dict):
        fields = sorted(f"{back.word(str(key))}: {_struct(one, back)}" for key, one in value.items())
        return "{" + ", ".join(fields) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_struct(one, back) for one in value) + "]"
    return back.word(value) if isinstance(value, str) else repr(value)


def store_of(path: Path, back: Back) -> Record:
    """A database: every column of every table, rows in the order they were written; documents by their leaves."""
    found: Record = {}
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as store:
        for (table,) in store.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            rows = store.execute(f'SELECT * FROM "{table}" ORDER BY rowid')  # noqa: S608, names are its own
            names = [column[0] for column in rows.description]
            values = list(zip(*rows.fetchall(), strict=True)) or [()] * len(names)
            for name, column in zip(names, values, strict=True):
                found[f"{back.word(table)}.{back.word(name)}"] = "\n".join(_cell(value, back) for value in column)
    return found


def _cell(value: object, back: Back) -> str:
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    if isinstance(text, str) and text.startswith(("{", "[")):
        leaves = tree_of(json.loads(text), back)
        return json.dumps({at: leaf for at, leaf in leaves.items() if not at.startswith(PROSE)}, sort_keys=True)
    if isinstance(value, bytes) and not value.isascii():
        return "<digest>"  # of a secret or of a document that is compared
    if isinstance(text, str) and text.count(" ") > 3:
        return " ".join(re.findall(r"\d+", masked(back.text(text))))
    return back.word(text) if isinstance(text, str) else repr(value)


def metrics_of(text: str, back: Back) -> Record:
    """Prometheus text: types, samples by name and labels, helps as prose."""
    found: Record = {}
    for line in back.text(text).splitlines():
        kind, _, rest = line.partition(" ") if not line.startswith("#") else line[2:].partition(" ")
        if line.startswith("#"):
            name, _, told = rest.partition(" ")
            found[f"{PROSE if kind == 'HELP' else ''}{kind} {name}"] = told
        else:
            labels = ",".join(sorted(re.findall(r'\w+="[^"]*"', kind)))
            name = kind.partition("{")[0]
            found[f"{name}{{{masked(labels)}}}"] = "<unstable>" if UNSTABLE.search(name) else rest
    return found


def replies_of(told: Mapping[str, Mapping[str, Any]], back: Back) -> Record:
    """Replies of a server, by what was asked: status, headers, and the body by its kind."""
    found: Record = {}
    for name, reply in told.items():
        kind, body = str(reply["headers"].get("content-type")), str(reply["body"])
        if "json" in kind and body:
            parts = tree_of(json.loads(body), back)
        elif "csv" in kind:
            parts = _csv_of(body, back)
        elif "version=" in kind:
            parts = metrics_of(body, back)
        else:
            parts = html_of(body, back)
        parts |= {"status": str(reply["status"]), "headers": back.text(masked(unquote(json.dumps(reply["headers"]))))}
        found |= {
            f"{PROSE}{name} {place.removeprefix(PROSE)}" if place.startswith(PROSE) else f"{name} {place}": text
            for place, text in parts.items()
        }
    return found


def _said_of(text: str, back: Back) -> Record:
    code, _, told = text.partition("\n")
    told = re.sub(r"\A\s*lake\s[^┏]*", "lake <path>\n", told)  # a path, broken where the table ends
    try:
        return tree_of(json.loads(told), back) | {"exit": code}
    except ValueError:
        return prose_of(told, back) | {"exit": code}


def _lines_of(text: str, back: Back) -> Record:
    """Lines of JSON; vectors that a server kept by what they are of, since two threads draw which ones it keeps."""
    lines = [json.loads(line) for line in text.splitlines()]
    found: Record = {}
    for place, leaves in ((f"[{number}]", tree_of(line, back)) for number, line in enumerate(lines)):
        if ".features[0]" in leaves:
            values = {at: value for at, value in leaves.items() if ".features[" in at}
            of = " ".join(leaves.pop(at) for at in sorted({*leaves} - {*values}))
            found |= {f"{DRAWN}{of}{at}": value for at, value in values.items()}
        else:
            found |= {place + at: value for at, value in leaves.items()}
    return found | {"lines": str(len(lines))}


def _stream_of(text: str, back: Back) -> Record:
    """Lines of a topic: times and keys, then records."""
    lines = [re.fullmatch(r"([^{]*)(.*)", line) for line in text.split("\n")]
    return {"lines": "\n".join(found[1] + _ordered(found[2], back) for found in lines if found is not None)}


def _ordered(text: str, back: Back) -> str:
    try:
        return json.dumps({back.word(key): value for key, value in json.loads(text).items()}, sort_keys=True)
    except (ValueError, AttributeError):
        return back.text(text)  # a record that was broken on purpose


def _csv_of(text: str, back: Back) -> Record:
    head, *rows = csv.reader(io.StringIO(text))
    columns = sorted((back.word(name), index) for index, name in enumerate(head))
    return {f"column {name}": "\n".join(_cell(row[index], back) for row in rows) for name, index in columns}


def _array_of(path: Path, back: Back) -> Record:
    array = np.load(path, allow_pickle=False)
    kind = "\n".join(sorted(back.text(str(array.dtype)).split("), (")))
    return {"kind": f"{array.shape} {kind}", "values": "\n".join(map(repr, array.tolist() if array.ndim else [array]))}


def _inputs(path: Path) -> Iterator[pa.Table]:
    """Tables that follow each other in a file, each after its length in eight bytes."""
    left = path.read_bytes()
    while left:
        end = 8 + int.from_bytes(left[:8], "big")
        yield pq.read_table(pa.BufferReader(left[8:end]))
        left = left[end:]


def _arrow(path: Path) -> pa.Table:
    return pa.ipc.open_file(pa.BufferReader(path.read_bytes())).read_all()


TEXTS: Mapping[str, Callable[[str, Back], Record]] = {
    ".said": _said_of,
    ".help": help_of,
    ".md": markdown_of,
    ".html": html_of,
    ".svg": html_of,
    ".log": _stream_of,
    ".csv": _csv_of,
    ".json": lambda text, back: tree_of(json.loads(text), back),
    ".replies": lambda text, back: replies_of(json.loads(text), back),
    ".jsonl": _lines_of,
    ".toml": lambda text, back: tree_of(tomllib.loads(text), back) | {f"{PROSE}text": back.text(text)},
}


def _table_parts(paths: Sequence[Path], back: Back) -> Record:
    """Of `.inputs`: the n-th tables of all files are one."""
    found: Record = {}
    for number, tables in enumerate(zip(*map(_inputs, paths), strict=True)):
        found |= {f"table {number} {at}": text for at, text in table_of(tables, back, ordered=False).items()}
    return found


BYTES: Mapping[str, Callable[[Sequence[Path], Back], Record]] = {
    ".parquet": lambda paths, back: table_of([pq.ParquetFile(one).read() for one in paths], back, ordered=False),
    ".arrow": lambda paths, back: table_of([_arrow(paths[0])], back, ordered=True),
    ".inputs": _table_parts,
    ".npy": lambda paths, back: _array_of(paths[0], back),
    ".sqlite": lambda paths, back: store_of(paths[0], back),
    ".msgpack": lambda paths, back: tree_of(msgspec.msgpack.decode(paths[0].read_bytes()), back),
    ".onnx": lambda paths, back: {"model": masked(back.text(str(onnx.load(paths[0]))))},
}


def record_of(paths: Sequence[Path], back: Back) -> Record:
    """The record of an artefact, which is one file, or all parts of a table."""
    kind = paths[0].suffix
    if kind in BYTES:
        return BYTES[kind](paths, back)
    read = [one.read_text(errors="replace") for one in paths]
    if kind == ".md" and "docs" not in paths[0].parts:  # a model card or a report: all its numbers count
        return prose_of(read[0], back)
    if kind in TEXTS and len(paths) == 1:
        return TEXTS[kind](read[0], back)
    return {"text": "\n".join(sorted(masked(back.text(text)) for text in read))}
