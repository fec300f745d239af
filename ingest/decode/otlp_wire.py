"""Wire: where in the bytes of OTLP's protobuf the times and values stand. Kernel.

Times and values are of fixed width. Of two stretches that agree in every other byte, the second therefore has the
structure of the first, and its times and values stand at the same places. That is how an exporter's next message looks
as long as no container comes or goes, and reading it needs no parser.

Source: protobuf's encoding specification; field numbers from opentelemetry-proto metrics/v1/metrics.proto.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

VARINT, FIXED64, LENGTH = 0, 1, 2
RESOURCE_METRICS, SCOPE_METRICS, METRICS, POINTS = 1, 2, 2, 1
GAUGE, SUM = 5, 7
START, TIME, DOUBLE, INTEGER, ATTRIBUTES = 2, 3, 4, 6, 7
TEMPORALITY, CUMULATIVE = 2, 2
WIDTH = 8
Bytes = NDArray[np.uint8]
Places = NDArray[np.int64]


class Field(NamedTuple):
    """One field: its number and wire type, and where its content lies; of a varint `end` is after it."""

    number: int
    type: int
    start: int
    end: int


class Layout(NamedTuple):
    """Where the points of a stretch have their times and values.

    Args:
        mask: (n,) 255 for bytes that every message of this layout shares, 0 for those of times and values.
        shared: the stretch with 0 in place of times and values.
        times: (points, 8) places of the bytes of each time.
        values: (points, 8) places of the bytes of each value.
        integer: (points,) whether the value is an integer, else a double.
    """

    mask: Bytes
    shared: bytes
    times: Places
    values: Places
    integer: NDArray[np.bool_]

    def fits(self, stretch: Bytes) -> bool:
        """Whether a stretch of the same length differs in times and values only."""
        return (stretch & self.mask).tobytes() == self.shared

    def read(self, stretch: Bytes) -> tuple[NDArray[np.uint64], NDArray[np.float64]]:
        """(points,) nanoseconds and values of a stretch that fits."""
        times = stretch[self.times].view("<u8")[:, 0]
        raw = stretch[self.values]
        values = raw.view("<f8")[:, 0]
        if self.integer.any():
            values = np.where(self.integer, raw.view("<i8")[:, 0].astype(np.float64), values)
        return times, values


def stretches(message: bytes) -> list[tuple[int, int]] | None:
    """Where each ResourceMetrics of a request begins and ends; None where anything else is in it."""
    found = fields(message, 0, len(message))
    if found is None or any(f.number != RESOURCE_METRICS or f.type != LENGTH for f in found):
        return None
    return [(f.start, f.end) for f in found]


def layout_of(stretch: bytes) -> Layout | None:
    """The layout of a ResourceMetrics; None unless it is gauges and cumulative sums of plain points."""
    times: list[int] = []
    values: list[int] = []
    starts: list[int] = []
    integers: list[bool] = []
    for point in _points(stretch):
        others = [f for f in point or () if f.number != ATTRIBUTES]
        own = {f.number: f for f in others}
        value = own.keys() & {DOUBLE, INTEGER}
        plain = {f.type for f in others} == {FIXED64} and own.keys() <= {START, TIME, DOUBLE, INTEGER}
        if TIME not in own or len(value) != 1 or not plain or len(own) != len(others):
            return None
        (kind,) = value
        times.append(own[TIME].start)
        values.append(own[kind].start)
        integers.append(kind == INTEGER)
        starts += [own[START].start] if START in own else []
    if not times:
        return None
    mask = np.full(len(stretch), 255, dtype=np.uint8)
    mask[_each_byte([*times, *values, *starts])] = 0
    shared = (np.frombuffer(stretch, np.uint8) & mask).tobytes()
    return Layout(mask, shared, _each_byte(times), _each_byte(values), np.array(integers))


def _each_byte(starts: list[int]) -> Places:
    return np.array(starts, dtype=np.int64)[:, None] + np.arange(WIDTH)


def _points(stretch: bytes) -> Iterator[list[Field] | None]:
    """Fields of each point, in order; None where there is something that is not understood."""
    for scope in _children(stretch, fields(stretch, 0, len(stretch)), SCOPE_METRICS):
        for metric in _children(stretch, scope, METRICS):
            data = [f for f in metric or () if f.number >= GAUGE and f.type == LENGTH and f.number <= 11]
            if metric is None or len(data) != 1 or data[0].number not in {GAUGE, SUM}:
                yield None
                return
            inner = fields(stretch, data[0].start, data[0].end)
            cumulative = [f for f in inner or () if f.number == TEMPORALITY and stretch[f.start] == CUMULATIVE]
            if data[0].number == SUM and not cumulative:
                yield None
                return
            yield from _children(stretch, inner, POINTS)


def _children(stretch: bytes, parent: list[Field] | None, number: int) -> Iterator[list[Field] | None]:
    if parent is None:
        yield None
        return
    for f in parent:
        if f.number == number and f.type == LENGTH:
            yield fields(stretch, f.start, f.end)


def fields(data: bytes, start: int, end: int) -> list[Field] | None:
    """Fields from one place to another; None where they do not end there, or are of another wire type."""
    found, at = [], start
    while at < end:
        tag, at = varint(data, at)
        kind = tag & 7
        if kind == LENGTH:
            length, at = varint(data, at)
            after = at + length
        elif kind == FIXED64:
            after = at + WIDTH
        elif kind == VARINT:
            _, after = varint(data, at)
        else:
            return None
        found.append(Field(tag >> 3, kind, at, after))
        at = after
    return found if at == end else None


def varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at a place, and the place after it; beyond the data, a place that is no end of anything."""
    number, shift = 0, 0
    while at < len(data):
        number |= (data[at] & 0x7F) << shift
        if data[at] < 0x80:
            return number, at + 1
        at, shift = at + 1, shift + 7
        if shift > 63:
            break
    return 0, len(data) + 1
