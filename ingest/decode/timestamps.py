"""Clock: times as foreign formats write them -> microseconds since 1970. Kernel.

Counts of seconds of this century and of any power of ten of a second below it are numbers that do not overlap, so the
size of a number shows its unit; Telegraf truncates json_timestamp_units to a power of ten. Exporters send one time
with many values: each distinct time is read once.
"""

from ingest.decode.columns import CENTURY_S, text_as_micros
from ingest.decode.numbers import number_of_text

MAX_TIMES = 10_000
"""Remembered times are forgotten beyond this many."""
MAX_LENGTH = 40
"""No time is longer as a text."""
BAD = -1
POWERS = 10
"""Units of time that are read: a second and its tenths down to a nanosecond."""
MICROS = 1_000_000
_LOW_S, _HIGH_S = CENTURY_S


class Clock:
    """Reads times, and remembers in `read` those it has read."""

    def __init__(self) -> None:
        self.read: dict[object, int] = {}

    def micros(self, raw: object) -> int:
        """Microseconds since 1970 of a number in any of these units, also as text, or of RFC 3339; else BAD."""
        if type(raw) is not int and type(raw) is not str and type(raw) is not float:
            return BAD
        found = self.read.get(raw)
        return self._new(raw) if found is None else found

    def _new(self, raw: int | float | str) -> int:
        """Read a time; one that is none is not remembered, so that every time found in `read` can be used."""
        micros = BAD if isinstance(raw, str) and len(raw) > MAX_LENGTH else self._parse(raw)
        if len(self.read) >= MAX_TIMES:
            self.read.clear()
        if micros != BAD:
            self.read[raw] = micros
        return micros

    def _parse(self, raw: int | float | str) -> int:
        """Of RFC 3339 with a fraction and Z, as Go writes it, the whole second is often one that was read before."""
        if not isinstance(raw, str):
            return micros_of_number(raw)
        if raw[19:20] == "." and raw[-1] == "Z" and raw.isascii() and raw[20:-1].isdecimal():
            whole = self.micros(f"{raw[:19]}Z")
            return whole if whole == BAD else whole + int(raw[20:26].rstrip("Z").ljust(6, "0"))
        number = int(raw) if raw.isdecimal() else number_of_text(raw)
        return micros_of_number(number) if isinstance(number, int | float) else text_as_micros(raw)


def micros_of_number(number: int | float) -> int:
    """Microseconds since 1970 of a number of s, 100 ms, 10 ms, 1 ms and so on to 1 ns; BAD outside the century."""
    for power in range(POWERS):
        per_second: int = 10**power
        if _LOW_S * per_second <= number < _HIGH_S * per_second:
            finer = per_second // MICROS
            return round(number // finer) if finer else round(number * (MICROS // per_second))
    return BAD
