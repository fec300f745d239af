"""Samples: points of any foreign format -> rows of `samples`, and rejects. Kernel, shared by those formats.

Exporters send the same labels over and over; only time and value change. What a record becomes is therefore worked out
once for each of its shapes (names and labels) and kept as a `Plan`; a decoder's loop looks the plan up and appends a
time and values. The rest is done column by column for the whole batch. What is remembered never changes an answer, and
is forgotten once it grows beyond its bounds.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from math import inf, nan
from operator import itemgetter
from reprlib import repr as short
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ingest.decode.columns import FUTURE_LIMIT_US, NUMBERS, ahead
from ingest.decode.contract import (
    BAD_TIMESTAMP,
    FUTURE_TIMESTAMP,
    MISSING_KEY,
    NEGATIVE,
    OUT_OF_RANGE,
    UNDECODABLE,
    WRONG_TYPE,
    Context,
    Decode,
    Decoded,
    Reject,
    rejects_table,
    rows_schema,
)
from ingest.decode.json_records import NotFinite
from ingest.decode.metrics.metric_mapping import COUNTER, GAUGE, TARGETS, ForeignMetric, MetricMap
from ingest.decode.metrics.owner_labels import NO_POD, Nowhere, Place, place_of
from ingest.decode.timestamps import Clock
from ingest.schema.tables import SAMPLES, TIMESTAMP
from ingest.schema.unknown_fields import bounded_counts

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
TOTALS, COUNT_BYTES = 2, 8
"""Of a histogram sum and count, before its buckets, and bytes of each bucket's count."""
MAX_SHAPES = 50_000
MAX_SHAPE_BYTES = 64 << 20
"""Beyond either of these all that is remembered is forgotten, before the next batch."""
WAITING = 1 << 14
"""So many values wait as they were read, before numbers are made of them."""
SCHEMA = rows_schema(SAMPLES)


class Template(NamedTuple):
    """One sample but for its time and value: whose, what, and between which values it is possible."""

    place: Place
    metric: str
    series: str | None
    exporter: str | None
    kind: str
    scale: float
    unknown: tuple[float, ...]


class Plan(NamedTuple):
    """What records of one shape become.

    Args:
        templates: number of each sample's template.
        picks: which of the record's points these samples are, one or several of a point; the others are not landed.
        items: what each sample is called in a reject, after the record's index; '' where that says it.
        missing: the key that labels of every record of this shape lack; '' where none is.
        unknown: names of the points that are not landed, without being wrong.
        straight: whether each point is one sample.
        number: of the plan, among those that its decoder remembers.
        take: makes values of the samples of those of the points.
        lead: how many samples are of the first two points, where each point after them is one sample; else -1.
    """

    templates: tuple[int, ...]
    picks: tuple[int, ...]
    items: tuple[str, ...]
    missing: str
    unknown: tuple[str, ...]
    straight: bool = False
    number: int = -1
    take: Callable[[Sequence[object]], Sequence[object]] = tuple
    lead: int = -1


class Point(NamedTuple):
    """Name and labels of one value; `delta`: it was counted since the last one, and made a rate by the decoder."""

    name: str
    labels: Mapping[str, str]
    delta: bool = False


class Shapes:
    """What was met, within bounds; one for each decoder. `plans` are by what identifies a shape in its format."""

    def __init__(self, mapping: MetricMap) -> None:
        self.mapping = mapping
        self.clock = Clock()
        self.plans: dict[Hashable, Plan] = {}
        self.numbered: list[Plan] = []
        self.templates: dict[Template, int] = {}
        self.columns = TemplateColumns.of([])
        self._bytes = 0
        self._sizes, self._starts, self._flat = array("q"), array("q"), array("q")

    def is_full(self) -> bool:
        """Whether it grew too large to go on with."""
        most = max(len(self.plans), len(self.numbered), len(self.templates))
        return self._bytes > MAX_SHAPE_BYTES or most > MAX_SHAPES

    def remember(self, key: Hashable, plan: Plan, size: int) -> Plan:
        """Keep a plan under a key that is about `size` bytes long."""
        if plan.number < 0:
            some = plan.picks
            take = itemgetter(*some) if len(some) > 1 else itemgetter(slice(some[0], some[0] + 1) if some else slice(0))
            lead = sum(pick < TOTALS for pick in some)
            if some[lead:] != tuple(range(TOTALS, TOTALS + len(some) - lead)):
                lead = -1
            plan = plan._replace(number=len(self.numbered), take=tuple if plan.straight else take, lead=lead)
            self.numbered.append(plan)
            self._sizes.append(len(plan.templates))
            self._starts.append(len(self._flat))
            self._flat.extend(plan.templates)
        self.plans[key] = plan
        self._bytes += size + 200 * len(plan.items)
        return plan

    def samples(self, numbers: Integers) -> tuple[Integers, Integers]:
        """(samples,) the record and the template of each sample, of (records,) numbers of plans."""
        counts = self.sizes(numbers)
        starts = np.array(self._starts)[numbers]
        record = np.repeat(np.arange(len(counts)), counts)
        first = np.cumsum(counts) - counts
        return record, np.array(self._flat)[np.repeat(starts - first, counts) + np.arange(len(record))]

    def sizes(self, numbers: Integers) -> Integers:
        """How many samples a record has of each of these plans."""
        return np.array(self._sizes)[numbers]

    def learn(self, key: Hashable, points: Sequence[Point], unread: Iterable[str] = ()) -> Plan:
        """Work out and keep what records with these points become; all points have about the same labels.

        Args:
            key: what identifies the shape in its format.
            points: names and labels of the values.
            unread: names of further parts of such records, which are not read.
        """
        plan = self.plan(points)
        labels = points[0].labels if points else {}
        words = [*(point.name for point in points), *labels, *labels.values()]
        return self.remember(key, plan._replace(unknown=(*plan.unknown, *unread)), sum(map(len, words)))

    def plan(self, points: Sequence[Point]) -> Plan:
        """What a record with these points becomes."""
        templates: list[int] = []
        picks: list[int] = []
        items: list[str] = []
        missing = ""
        unknown: list[str] = []
        for number, point in enumerate(points):
            metrics = self.mapping.fitting(point.name, point.labels)
            if not metrics:
                known = point.name in self.mapping.metrics
                unknown.append(f"{point.name} with other labels" if known else point.name)
            for metric in metrics:
                found = self._template(point, metric)
                if isinstance(found, Template):
                    templates.append(self.templates.setdefault(found, len(self.templates)))
                    picks.append(number)
                    items.append(point.name if found.series is None else f"{point.name}.{found.series}")
                elif isinstance(found, Nowhere):
                    missing = missing or found.missing
                elif found not in unknown[-1:]:
                    unknown.append(found)
        straight = picks == list(range(len(points)))
        return Plan(tuple(templates), tuple(picks), _distinct(items), missing, tuple(unknown), straight)

    def _template(self, point: Point, metric: ForeignMetric) -> Template | Nowhere | str:
        """The point's template, why it has none, or the name to count it under."""
        if point.delta and metric.kind != COUNTER:
            return f"{point.name} as a delta"
        place = place_of(point.labels, self.mapping.labels, metric.of, metric.series)
        if isinstance(place, Nowhere):
            return place if place.missing else f"{point.name} of {place.podless}"
        if metric.is_own(place.pod):
            return f"{point.name} of {NO_POD}"
        series, kind = metric.series_of(point.labels), GAUGE if point.delta else metric.kind
        return Template(place, metric.target, series, metric.exporter or None, kind, metric.scale, metric.unknown)

    def table(self) -> "TemplateColumns":
        """Columns of all templates, by their numbers."""
        if self.columns.size != len(self.templates):
            self.columns = TemplateColumns.of(list(self.templates))
        return self.columns


def _distinct(items: Sequence[str]) -> tuple[str, ...]:
    seen: Counter[str] = Counter()
    found = []
    for item in items:
        seen[item] += 1
        found.append(item if seen[item] == 1 else f"{item}#{seen[item]}")
    return tuple(found)


class TemplateColumns(NamedTuple):
    """Templates column by column."""

    size: int
    texts: Mapping[str, pa.StringArray | pa.StringScalar]
    scale: Floats
    low: Floats
    high: Floats
    unknown: Mapping[int, tuple[float, ...]]

    @classmethod
    def of(cls, templates: Sequence[Template]) -> "TemplateColumns":
        """Columns of templates in the order of their numbers."""
        places = [t.place for t in templates]
        texts = {name: [p[i] for p in places] for i, name in enumerate(Place._fields)}
        texts |= {name: [getattr(t, name) for t in templates] for name in ("metric", "series", "exporter", "kind")}
        columns = [TARGETS[t.metric] for t in templates]
        counters = [t.kind == COUNTER for t in templates]
        return cls(
            len(templates),
            {name: _texts(values) for name, values in texts.items()},
            np.array([t.scale for t in templates], dtype=np.float64),
            np.array([0.0 if c else column.low for c, column in zip(counters, columns, strict=True)]),
            np.array([inf if c else column.high for c, column in zip(counters, columns, strict=True)]),
            {i: t.unknown for i, t in enumerate(templates) if t.unknown},
        )


class RecordColumns(NamedTuple):
    """(records,) number of the plan, message and time of each record."""

    plans: Integers
    messages: Integers
    micros: Integers


class Rows:
    """Records of one batch, in order, as a decoder's loop finds them.

    Args:
        plans: (records,) the number of what each becomes.
        messages: (records,) the message it came from.
        indexes: (records,) what it is called in a reject: its index in the message.
        micros: (records,) its time, microseconds since 1970; below 0 where that cannot be read.
        values: values of the next samples, record by record, as they were read.
    """

    def __init__(self, context: Context) -> None:
        self.context = context
        self.plans, self.messages, self.micros = array("q"), array("q"), array("q")
        self.indexes: list[object] = []
        self.values: list[object] = []
        self._numbers = array("d")
        self.parts: list[RecordColumns] = []
        self.rejects: list[Reject] = []
        self._times: dict[int, object] = {}
        self._wrong: dict[int, object] = {}
        self._counts: Counter[str] = Counter()
        self._packed, self._packed_sizes = array("q"), array("q")

    def close_part(self) -> None:
        """Make columns of the records that were added one by one since the last part."""
        self.parts.append(RecordColumns(*map(np.array, (self.plans, self.messages, self.micros))))
        self.plans, self.messages, self.micros = array("q"), array("q"), array("q")

    @property
    def size(self) -> int:
        """How many records and rejects there are; as many as before means that a message held nothing."""
        return len(self.indexes) + len(self.rejects)

    def add(self, plan: Plan, at: tuple[int, object], micros: int, values: Sequence[object]) -> None:
        """A record, at its message and its index in it, with the values of all its points.

        Loops that are in a hurry append to the lists themselves.
        """
        self.plans.append(plan.number)
        self.messages.append(at[0])
        self.indexes.append(at[1])
        self.micros.append(micros)
        self.values += values if plan.straight else plan.take(values)
        if len(self.values) > WAITING:
            self._settle()

    def _settle(self) -> None:
        """Make numbers of the values, NaN of what is none; what is wrong is remembered."""
        if NUMBERS.issuperset(map(type, self.values)):
            self._numbers.fromlist(self.values)  # type: ignore[arg-type]
        else:
            for row, value in enumerate(self.values, len(self._numbers)):
                good = isinstance(value, int | float) and type(value) in NUMBERS
                if not good and not _is_missing(value):
                    self._wrong[row] = value
                self._numbers.append(value if good else nan)  # type: ignore[arg-type]
        self.values.clear()

    def add_numbers(self, numbers: bytes) -> None:
        """Values of the next samples, 64 bits each; NaN where one is missing."""
        self._settle()
        self._numbers.frombytes(numbers)

    def add_counts(
        self, plan: Plan, at: tuple[int, object], micros: int, totals: tuple[object, object], packed: bytes
    ) -> None:
        """A record of a sum, a count and counts of buckets, 64 bits each; read for all at once."""
        if (len(plan.templates) - plan.lead) * COUNT_BYTES != len(packed):
            self.add(plan, at, micros, (*totals, *array("Q", packed)))
            return
        self.plans.append(plan.number)
        self.messages.append(at[0])
        self.indexes.append(at[1])
        self.micros.append(micros)
        self.values += [totals[pick] for pick in plan.picks[: plan.lead]]
        self._settle()
        self._packed.append(len(self._numbers))
        self._packed_sizes.append(len(packed) // COUNT_BYTES)
        self._numbers.frombytes(packed)

    def _unpacked(self) -> Floats:
        """All values, with counts as numbers."""
        self._settle()
        numbers, sizes = np.array(self._numbers), np.array(self._packed_sizes)
        where = np.repeat(np.array(self._packed) - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
        numbers[where] = numbers.view(np.uint64)[where]
        return numbers

    def undecodable(self, message: int, item: str, detail: str) -> None:
        """Set a message, or a part of it, aside."""
        self.rejects.append(Reject(message, item, UNDECODABLE, detail))

    def count(self, name: str) -> None:
        """Count something that is neither landed nor wrong."""
        self._counts[name] += 1

    def time(self, clock: Clock, raw: object) -> int:
        """Time of the record that is added next; where it cannot be read, what stood there is remembered."""
        micros = clock.micros(raw)
        if micros < 0:
            self._times[len(self.indexes)] = raw
        return micros

    def decoded(self, shapes: Shapes) -> Decoded:
        """Rows, rejects and counts of everything that was added."""
        self.close_part()
        self.parts = [RecordColumns(*map(np.concatenate, zip(*self.parts, strict=True)))]
        number, messages, micros = self.parts[0]
        keep, untimely = self._check_times(shapes)
        record, template = shapes.samples(number)
        values, faults = _checked(template, self._unpacked(), shapes.table())
        wrong = [(row, (WRONG_TYPE, f"{short(value)} is not a finite number")) for row, value in self._wrong.items()]
        used = {plan: shapes.numbered[plan] for plan in np.flatnonzero(np.bincount(number)).tolist()}
        found = sorted(self.rejects, key=lambda reject: reject.message)
        rejects = [*found, *self._shape_faults(number, used), *untimely]
        if wrong or faults:
            place = np.arange(len(record)) - np.searchsorted(record, record)
            kept = [(int(record[row]), int(place[row]), *why) for row, why in (*wrong, *faults) if keep[record[row]]]
            rejects += [self._reject(shapes, *one) for one in kept]
        if not keep.all():
            good = keep[record]
            record, template, values = record[good], template[good], values.filter(pa.array(good))
        rows = self._table(messages[record], micros[record], template, values, shapes.table())
        return Decoded(SAMPLES.name, rows, rejects_table(rejects), self._unknown(number, used))

    def _check_times(self, shapes: Shapes) -> tuple[NDArray[np.bool_], list[Reject]]:
        """(records,) whose time holds, and rejects of the others, unless nothing of them would land anyway."""
        number, messages, micros = self.parts[0]
        arrived = self.context.arrived_at.view(pa.int64()).to_numpy(zero_copy_only=False)
        ahead_us = micros - arrived[messages]
        bad, late = micros < 0, ahead_us > FUTURE_LIMIT_US

        def landing(rows: NDArray[np.bool_]) -> list[int]:
            return [row for row in np.flatnonzero(rows).tolist() if shapes.numbered[number[row]].templates]

        rejects = [self._no_time(row) for row in landing(bad)]
        rejects += [
            Reject(self._message(row), str(self.indexes[row]), FUTURE_TIMESTAMP, ahead(int(ahead_us[row])))
            for row in landing(late)
        ]
        return ~(bad | late), rejects

    def _message(self, row: int) -> int:
        """Of a record, when all are columns."""
        return int(self.parts[0].messages[row])

    def _no_time(self, row: int) -> Reject:
        message, item, raw = self._message(row), str(self.indexes[row]), self._times.get(row)
        if raw is None:
            return Reject(message, item, MISSING_KEY, "the time is missing")
        return Reject(message, item, BAD_TIMESTAMP, f"{short(raw)} is no time of this century")

    def _shape_faults(self, number: Integers, used: Mapping[int, Plan]) -> list[Reject]:
        faulty = [plan for plan, of in used.items() if of.missing]
        return [
            Reject(self._message(row), f"{self.indexes[row]}", MISSING_KEY, used[int(number[row])].missing)
            for row in (np.flatnonzero(np.isin(number, faulty)).tolist() if faulty else ())
        ]

    def _reject(self, shapes: Shapes, row: int, place: int, reason: str, detail: str) -> Reject:
        index, item = self.indexes[row], shapes.numbered[self.parts[0].plans[row]].items[place]
        return Reject(self._message(row), f"{index}.{item}" if item else f"{index}", reason, detail)

    def _table(
        self, messages: Integers, micros: Integers, template: Integers, values: pa.Array, columns: TemplateColumns
    ) -> pa.Table:
        rows = pa.array(template)
        found = {name: _taken(texts, rows) for name, texts in columns.texts.items()}
        if found["cluster"].null_count == len(template):
            found["cluster"] = pa.repeat(pa.scalar(self.context.cluster), len(template))
        elif found["cluster"].null_count:
            found["cluster"] = found["cluster"].fill_null(self.context.cluster)
        found["ts"] = pa.array(micros).view(TIMESTAMP)
        found["message"] = pa.array(messages.astype(np.int32))
        found["value"] = values
        return pa.Table.from_arrays([found[name] for name in SCHEMA.names], schema=SCHEMA)

    def _unknown(self, number: Integers, used: Mapping[int, Plan]) -> dict[str, int]:
        counts, times = Counter(self._counts), np.bincount(number)
        for plan, of in used.items():
            for name in of.unknown:
                counts[name] += int(times[plan])
        return bounded_counts(counts)


def decoder_of(read: Callable[[Rows, Shapes, Sequence[bytes | None]], None], mapping: MetricMap) -> Decode:
    """The decoder that reads each batch of messages into rows, by the shapes that it has met so far."""
    shapes = Shapes(mapping)

    def decode(messages: pa.BinaryArray, context: Context) -> Decoded:
        nonlocal shapes
        if shapes.is_full():
            shapes = Shapes(mapping)
        rows = Rows(context)
        read(rows, shapes, messages.to_pylist())
        return rows.decoded(shapes)

    return decode


def _taken(texts: pa.StringArray | pa.StringScalar, rows: pa.Int64Array) -> pa.StringArray:
    """Each row's text; where all have one, it is not looked up for each."""
    if isinstance(texts, pa.StringScalar):
        return pa.repeat(texts, len(rows)) if texts.is_valid else pa.nulls(len(rows), pa.string())
    return texts.take(rows)


def _texts(values: Sequence[str | None]) -> pa.StringArray | pa.StringScalar:
    """Texts of templates, or the one that all have."""
    return pa.scalar(values[0], pa.string()) if len(set(values)) == 1 else pa.array(values, pa.string())


def _checked(
    template: Integers, numbers: Floats, columns: TemplateColumns
) -> tuple[pa.Array, list[tuple[int, tuple[str, str]]]]:
    """Values in their columns' units, null where not measured or impossible; row, reason and detail of the faults."""
    infinite = np.flatnonzero(np.isinf(numbers)).tolist()
    faults = [(row, (WRONG_TYPE, f"{numbers[row]} is not a finite number")) for row in infinite]
    numbers[infinite] = nan
    for number, words in columns.unknown.items():
        numbers[(template == number) & np.isin(numbers, words)] = nan
    numbers *= columns.scale[template]
    low, high = columns.low[template], columns.high[template]
    outside = (numbers < low) | (numbers > high)
    for row in np.flatnonzero(outside).tolist():
        reason = NEGATIVE if numbers[row] < 0 <= low[row] else OUT_OF_RANGE
        faults.append((row, (reason, f"{numbers[row]:g}; possible is {low[row]:g} to {high[row]:g}")))
    return pa.array(numbers, mask=outside | np.isnan(numbers)), faults


def _is_missing(value: object) -> bool:
    return value is None or (isinstance(value, NotFinite) and value.token == "NaN")  # noqa: S105
