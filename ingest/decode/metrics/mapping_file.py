"""Mapping file: metrics, histograms and labels of one's own, in TOML. An edge.

    [[metric]]
    name = "my_cpu_millicores"      # as the format spells it; of Telegraf measurement.field
    target = "cpu_cores"            # a column of usage, or an ingredient
    kind = "gauge"                  # or "counter": the value is the integral of the column over time
    scale = 0.001                   # value times scale is in the column's unit
    where = { state = "used" }      # labels it must have; text or a list, * as in file names
    unless = { cpu = ["cpu-total"] }  # labels it must not have
    series = ["disk"]               # labels that distinguish series, which are added up; "*": all others
    unknown = [-1]                  # values by which the exporter says that it does not know
    of = "container"                # or "pod": whichever container it was read in; "node": the node itself; "app": of
                                    # the pod that serves requests; "service": of no pod

    [[histogram]]
    name = "my.request.duration"    # with dots as in OTLP; else as in Prometheus, without _count, _sum and _bucket
    unit = "ms"                     # or "s", "us": where the format names none
    answered = { "status" = ["2*", "3*", ""] }  # requests whose time counts; all count as requests

    [labels]
    node = ["my_node"]              # looked at before those that are known
    replica = ["my_ha_label"]       # distinguishes collectors of the same metrics; one is used

A name in the file replaces every entry of that name in the tables.
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError

from ingest.decode.metrics.histograms import SECONDS, Histogram
from ingest.decode.metrics.metric_mapping import LEVELS, TARGETS, ForeignMetric, Labels, MetricMap, Words
from ingest.schema.errors import IngestError
from ingest.schema.tables import KIND_VALUES


def read_mapping(path: Path, known: MetricMap) -> MetricMap:
    """The known map with a TOML file's entries in place of those of the same name.

    Raises:
        IngestError: the file is not TOML, or an entry cannot be used; it says which, and where.
    """
    text = path.read_text(encoding="utf-8", errors="replace")
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # a number of 5,000 digits, 1,000 lists in each other
        raise _bad_mapping(path, "it is not TOML", str(error)) from error
    if strange := sorted(document.keys() - {"metric", "histogram", "labels"}):
        raise _bad_mapping(path, f"{strange[0]!r} is unknown", "there are [[metric]], [[histogram]] and [labels]")
    metrics = (ForeignMetric(**given) for given in _entries(path, text, document, "metric", _METRIC))
    histograms = (Histogram(**given) for given in _entries(path, text, document, "histogram", _HISTOGRAM))
    added = MetricMap.of([*metrics, *(metric for one in histograms for metric in one.metrics())])
    return MetricMap({**known.metrics, **added.metrics}, _labels(path, document.get("labels", {}), known.labels))


def _entries(
    path: Path, text: str, document: Mapping[str, Any], kind: str, wanted: "Wanted"
) -> Iterator[dict[str, Any]]:
    """What each entry of a kind gives."""
    entries = document.get(kind, [])
    if not isinstance(entries, list):
        raise _bad_mapping(path, f"{kind!r} is no list", f"write each under [[{kind}]]")
    starts = [row for row, line in enumerate(text.splitlines(), 1) if line.split("#")[0].strip() == f"[[{kind}]]"]
    for number, entry in enumerate(entries):
        where = f"{kind} {number + 1}" + (f", line {starts[number]}" if number < len(starts) else "")
        yield _entry(path, where, kind, entry, wanted)


def _entry(path: Path, where: str, kind: str, entry: object, wanted: "Wanted") -> dict[str, Any]:
    if not isinstance(entry, dict):
        raise _bad_mapping(path, f"{where} is no table", f"write each under [[{kind}]]")
    if isinstance(entry.get("name"), str):
        where += f", {entry['name']!r}"
    given = {}
    for name, value in entry.items():
        if name not in wanted:
            raise _bad_mapping(path, f"{where}: {name!r} is unknown", f"there are {', '.join(wanted)}")
        type_, words = wanted[name]
        given[name] = _read(type_, value, path, f"{where}: {name} = {value!r}", f"it must be {words}")
    needed = [name for name in ("name", "target") if name in wanted]
    for name in needed:
        if name not in given:
            raise _bad_mapping(path, f"{where}: {name} is missing", f"a {kind} needs {' and '.join(needed)}")
    return given


def _read(kind: Any, value: object, path: Path, what: str, wanted: str) -> Any:
    """A value of the file, as pydantic reads one of that type."""
    try:
        return TypeAdapter(kind).validate_python(value)
    except ValidationError as error:
        raise _bad_mapping(path, what, wanted) from error


_TEXT = Annotated[str, Field(strict=True, min_length=1)]
_NUMBER = Annotated[float, Field(strict=True, allow_inf_nan=False)]
_WORDS = Annotated[
    tuple[Annotated[str, Field(strict=True)], ...],
    BeforeValidator(lambda value: [value] if isinstance(value, str) else value),
]
_CONDITIONS = (dict[str, _WORDS], "a table of label = pattern, or label = [patterns]")
Wanted = Mapping[str, tuple[Any, str]]
"""What each field must be in a file: its type, and that in words."""
_BOTH: Wanted = {
    "name": (_TEXT, "text"),
    "where": _CONDITIONS,
    "unless": _CONDITIONS,
    "exporter": (_TEXT, "text"),
    "of": (Literal[LEVELS], f"one of {', '.join(LEVELS)}"),
}
_METRIC: Wanted = {
    "name": _BOTH["name"],
    "target": (Literal[tuple(TARGETS)], f"one of {', '.join(TARGETS)}"),
    "kind": (Literal[KIND_VALUES], f"one of {', '.join(KIND_VALUES)}"),
    "scale": (Annotated[_NUMBER, Field(lt=0)] | Annotated[_NUMBER, Field(gt=0)], "a number other than 0"),
    "series": (_WORDS, "a list of labels"),
    "part_of": (_TEXT, "text"),
    "unknown": (tuple[_NUMBER, ...], "a list of numbers"),
    **_BOTH,
}
_HISTOGRAM: Wanted = {
    "unit": (Literal[tuple(SECONDS)], f"one of {', '.join(SECONDS)}"),
    "answered": _CONDITIONS,
    "counts": (Annotated[bool, Field(strict=True)], "true or false"),
    **_BOTH,
}


def _labels(path: Path, given: object, known: Labels) -> Labels:
    """Labels with the file's candidates before the known ones."""
    names = [f.name for f in fields(Labels)]
    if not isinstance(given, dict):
        raise _bad_mapping(path, "'labels' is no table", f"write it under [labels], with {', '.join(names)}")
    added: dict[str, Words] = {}
    for name, value in given.items():
        what, wanted = f"labels: {name} = {value!r}", f"give lists of labels for {', '.join(names)}"
        if name not in names:
            raise _bad_mapping(path, what, wanted)
        added[name] = (*_read(_WORDS, value, path, what, wanted), *getattr(known, name))
    return replace(known, **added)


def _bad_mapping(path: Path, what: str, wanted: str) -> IngestError:
    return IngestError(f"mapping {path} cannot be used: {what}; {wanted}")
