"""One column's values, as parsed, -> an Arrow array within the catalogue's type and range, and its faults.

Kernels, shared by every wire format that carries values by name. A faulty or missing value is null in the array. What
becomes of a value never depends on its neighbours, so a batch may be cut anywhere.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from reprlib import repr as short
from types import NoneType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ingest.decode.contract import BAD_TIMESTAMP, FUTURE_TIMESTAMP, NEGATIVE, OUT_OF_RANGE, WRONG_TYPE
from ingest.schema.cpuset import is_cpuset
from ingest.schema.tables import TIMESTAMP, Column

Values = Sequence[object]
Micros = NDArray[np.int64]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
CENTURY_S = (946_684_800.0, 4_102_444_800.0)
"""2000-01-01 to 2100-01-01: no count of seconds in it is also a count of milliseconds."""
NUMBERS = frozenset({int, float})
FUTURE_LIMIT_US = 5 * 60 * 1_000_000
RFC_3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})"
)


class Fault(NamedTuple):
    """What is wrong with one value: its row in the array, a reason of `types.REASONS`, and what was found."""

    row: int
    reason: str
    detail: str


class Checked(NamedTuple):
    """Values that hold, null elsewhere; a value that was there and does not hold has a fault."""

    values: pa.Array
    faults: list[Fault]


def check_column(column: Column, values: Values) -> Checked:
    """Check values of any column but a time.

    Args:
        column: the catalogue's entry: type, low and high.
        values: (n,) as a JSON parser gives them; None is missing.

    Returns:
        (n,) array of the column's type, and faults in row order for each reason.

    Source: ours; the reject rules of `ingest.decode.contract`.
    """
    return _CHECKS.get(column.type, _check_others)(column, values)


def check_time(values: Values, arrived_us: Micros) -> Checked:
    """Check times: seconds or milliseconds of this century as numbers, or RFC 3339 as text.

    Args:
        values: (n,) as a JSON parser gives them; None is missing.
        arrived_us: (n,) when each was received, microseconds since 1970.

    Returns:
        (n,) array of timestamps, null where missing or faulty.
    """
    if set(map(type, values)) <= NUMBERS:
        found = _numbers_as_micros(values)
    else:
        found = _numbers_as_micros([v if type(v) in NUMBERS else None for v in values])
        for row in (row for row, v in enumerate(values) if isinstance(v, str)):
            found[row] = text_as_micros(str(values[row]))
    bad = found < 0
    late = found > arrived_us + FUTURE_LIMIT_US
    strange = "is neither seconds nor milliseconds of this century, nor RFC 3339"
    faults = [Fault(i, BAD_TIMESTAMP, f"{short(values[i])} {strange}") for i in _rows(bad) if values[i] is not None]
    faults += [Fault(i, FUTURE_TIMESTAMP, ahead(int(found[i] - arrived_us[i]))) for i in _rows(late)]
    return Checked(pa.array(found, mask=bad | late).cast(TIMESTAMP), faults)


def _rows(flags: NDArray[np.bool_]) -> list[int]:
    return [int(row) for row in np.flatnonzero(flags)]


def _numbers_as_micros(values: Values) -> Micros:
    """Microseconds since 1970; -1 for what is missing or outside the century."""
    numbers = np.array(values, dtype=np.float64)
    low, high = CENTURY_S
    seconds = (numbers >= low) & (numbers < high)
    milliseconds = (numbers >= low * 1e3) & (numbers < high * 1e3)
    scale, known = np.where(seconds, 1e6, 1e3), seconds | milliseconds
    return np.where(known, np.rint(np.where(known, numbers, 0.0) * scale), -1.0).astype(np.int64)


def text_as_micros(text: str) -> int:
    """Microseconds since 1970 of RFC 3339; -1 for other texts and other centuries."""
    if not RFC_3339.fullmatch(text):
        return -1
    try:
        moment = datetime.fromisoformat(text.upper())
    except ValueError:
        return -1
    micros = (moment - EPOCH) // MICROSECOND
    return micros if CENTURY_S[0] <= micros / 1e6 < CENTURY_S[1] else -1


def ahead(micros: int) -> str:
    """What to say of a time that lies so far after the message was received."""
    return f"{micros / 1e6:.0f} s after it was received (limit {FUTURE_LIMIT_US / 1e6:.0f} s): check the sender's clock"


def check_floats(column: Column, numbers: NDArray[np.float64]) -> Checked:
    """Check the range of (n,) values that are numbers already; NaN is missing."""
    outside = (numbers < column.low) | (numbers > column.high)
    faults = [_outside(column, i, numbers[i]) for i in _rows(outside)]
    missing = outside | np.isnan(numbers)
    return Checked(pa.array(numbers, mask=missing) if missing.any() else pa.array(numbers), faults)


def _check_numbers(column: Column, values: Values) -> Checked:
    typed, faults = _only(values, frozenset({float, int}), "a finite number")
    checked = check_floats(column, np.array(typed, dtype=np.float64))
    return Checked(checked.values, [*faults, *checked.faults])


def _check_integers(column: Column, values: Values) -> Checked:
    typed, faults = _only(values, frozenset({float, int}), "a whole number", _is_whole)
    low, high = max(column.low, -(2**63)), min(column.high, 2**63 - 1)
    outside = [i for i, v in enumerate(typed) if isinstance(v, int | float) and not low <= v <= high]
    faults += [_outside(column, i, typed[i]) for i in outside]
    held = [int(v) if isinstance(v, int | float) and low <= v <= high else None for v in typed]
    return Checked(pa.array(held, pa.int64()), faults)


def _check_texts(column: Column, values: Values) -> Checked:
    typed, faults = _only(values, frozenset({str}), "text")
    if column.name == "cpuset":
        unreadable = [i for i, v in enumerate(typed) if isinstance(v, str) and not is_cpuset(v)]
        faults += [Fault(i, OUT_OF_RANGE, f"{short(typed[i])} does not read as cores, like 0-3,8") for i in unreadable]
        typed = [None if i in set(unreadable) else v for i, v in enumerate(typed)]
    if not column.choices:
        return Checked(pa.array(typed, pa.string()), faults)
    known = {None, *column.choices}
    strange = [i for i, v in enumerate(typed) if v not in known]
    faults += [Fault(i, OUT_OF_RANGE, f"{short(typed[i])} is none of {', '.join(column.choices)}") for i in strange]
    return Checked(pa.array([v if v in known else None for v in typed], pa.string()), faults)


def _check_others(column: Column, values: Values) -> Checked:
    kind, wanted, also = _OTHERS[column.type]
    typed, faults = _only(values, frozenset({kind}), wanted, also)
    return Checked(pa.array(typed, column.type), faults)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) or (isinstance(value, float) and value.is_integer())


def _are_texts(values: Iterable[object]) -> bool:
    return all(type(v) is str for v in values)


def _only(
    values: Values, kinds: frozenset[type], wanted: str, also: Callable[[Any], bool] | None = None
) -> tuple[Values, list[Fault]]:
    """Values of the given types (True is no number), None in place of others, and a fault for each of those."""
    if also is None and set(map(type, values)) <= kinds | {NoneType}:
        return values, []
    wrong = [
        i for i, v in enumerate(values) if v is not None and (type(v) not in kinds or not (also is None or also(v)))
    ]
    faults = [Fault(i, WRONG_TYPE, f"{short(values[i])} is not {wanted}") for i in wrong]
    unwanted = set(wrong)
    return [None if i in unwanted else v for i, v in enumerate(values)], faults


def _outside(column: Column, row: int, value: object) -> Fault:
    negative = isinstance(value, int | float) and value < 0 <= column.low
    reason = NEGATIVE if negative else OUT_OF_RANGE
    return Fault(row, reason, f"{value:g} {column.unit}; possible is {column.low:g} to {column.high:g}")


_CHECKS: dict[pa.DataType, Callable[[Column, Values], Checked]] = {
    pa.float64(): _check_numbers,
    pa.int64(): _check_integers,
    pa.string(): _check_texts,
}
_OTHERS: dict[pa.DataType, tuple[type, str, Callable[[Any], bool] | None]] = {
    pa.bool_(): (bool, "true or false", None),
    pa.list_(pa.string()): (list, "a list of texts", _are_texts),
    pa.map_(pa.string(), pa.string()): (dict, "an object of texts", lambda found: _are_texts(found.values())),
}
