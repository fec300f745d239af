"""Judging: whether what has landed of a source is what its golden data says. Kernel."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isclose
from typing import Any

import pyarrow as pa

from e2e.golden.sources import Golden, Source

CPU, MEMORY = "cpu_cores", "memory_bytes"
COLUMNS = ("source", "format", "version", "records", "rows", "dead", "CPU", "memory", "compared")
"""Of the table: rows of samples and usage, dead letters, CPU and memory in them, and golden values compared."""
WIDTHS = (19, 13, 8)
Read = Callable[[str, str], str]
"""Text of a file in a module."""


@dataclass(frozen=True)
class Landed:
    """What has landed of a source's records.

    Args:
        records: how many were sent.
        values: values that are no null, by metric.
        nodes: that they are of.
        dead_letters: reasons and details.
    """

    records: int
    values: Mapping[str, Sequence[float]]
    nodes: frozenset[str]
    dead_letters: Sequence[str]

    @property
    def rows(self) -> int:
        """How many values there are."""
        return sum(map(len, self.values.values()))


def landed(offsets: Mapping[str, range], tables: Mapping[str, pa.Table]) -> Landed:
    """What has landed of the records at some offsets of topics with one partition."""
    found: dict[str, list[float]] = {}
    nodes: set[str] = set()
    for name in ("samples", "usage"):
        for row in _at(offsets, tables[name]):
            metrics = {row["metric"]: row["value"]} if name == "samples" else {key: row[key] for key in (CPU, MEMORY)}
            for metric, value in metrics.items():
                if value is not None:
                    found.setdefault(metric, []).append(value)
            nodes.add(row["node"])
    dead = [f"{row['reason']}: {row['detail']}" for row in _at(offsets, tables["dead_letters"])]
    return Landed(sum(map(len, offsets.values())), found, frozenset(nodes), dead)


def _at(offsets: Mapping[str, range], table: pa.Table) -> Iterable[dict[str, Any]]:
    return (row for row in table.to_pylist() if row["offset"] in offsets.get(row["topic"], ()))


def complaints(source: Source, found: Landed, read: Read) -> list[str]:
    """What is wrong with what has landed of a source; nothing where it is right."""
    wrong = [f"dead letter: {letter}" for letter in found.dead_letters[:3]]
    if not found.records:
        wrong.append("the exporter made no record")
    wrong += [
        f"no value of {metric}"
        for metric, has in ((CPU, source.has_cpu), (MEMORY, source.has_memory))
        if has and not found.values.get(metric)
    ]
    if found.nodes - {source.node}:
        wrong.append(f"of nodes {', '.join(sorted(found.nodes))}, not {source.node}")
    return wrong + [difference for golden in source.golden if (difference := _differs(golden, found, read))]


def _differs(golden: Golden, found: Landed, read: Read) -> str:
    value = golden_value(golden, read(golden.module, golden.file))
    if value is None:
        return f"{golden.file} has nothing like {golden.pattern}"
    values = found.values.get(golden.metric, ())
    if any(isclose(value, one, rel_tol=1e-9) for one in values):
        return ""
    return f"{golden.metric} of {golden.file} is {value:g}; landed are {sorted(set(values))[:5]}"


def golden_value(golden: Golden, text: str) -> float | None:
    """The value that a golden file has, in the unit of the column."""
    match = re.search(golden.pattern, text)
    return None if match is None else float(match[1]) * golden.factor


def row_of(source: Source, found: Landed, version: str) -> tuple[str, ...]:
    """A source's row of the table."""
    counts = (found.records, found.rows, len(found.dead_letters))
    shown = [len(found.values.get(metric, ())) for metric in (CPU, MEMORY)]
    values = [f"{n}" if n or has else "-" for n, has in zip(shown, (source.has_cpu, source.has_memory), strict=True)]
    name, _, kind = source.name.partition(", ")
    return (name, kind, version, *map(str, counts), *values, str(len(source.golden)))


def line(row: tuple[str, ...]) -> str:
    """A row of the table, names to the left and figures to the right."""
    names = "  ".join(f"{name:<{width}}" for name, width in zip(row, WIDTHS, strict=False))
    return names + "".join(f"{figure:>9}" for figure in row[len(WIDTHS) :])
