"""Numbers written as text, as Prometheus and OpenTelemetry do. Kernel."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

MAX_DIGITS = 40
OF_NUMBERS = b"0123456789+-.eE"
_DIGITS = r"^[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?$"


def number_of_text(value: object) -> object:
    """The number a text holds, NaN and infinities included; whatever is no such text stays as it is."""
    if type(value) is not str or len(value) > MAX_DIGITS or "_" in value:  # Python's own 1_000 is no format's
        return value
    try:
        return float(value)
    except ValueError:
        return value


def number_of_bytes(text: bytes) -> float | None:
    """The number that digits make; None where a closer look is needed, as of NaN."""
    if len(text) > MAX_DIGITS or text.translate(None, OF_NUMBERS):
        return None
    try:
        return float(text)
    except ValueError:
        return None


def numbers_of_texts(texts: pa.StringArray) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """(n,) numbers that n texts hold and nothing else, and which need a closer look."""
    odd = pc.or_(pc.match_substring(texts, "("), pc.greater(pc.binary_length(texts), MAX_DIGITS))  # Arrow reads nan(1)
    try:
        numbers = texts.cast(pa.float64())
    except pa.ArrowInvalid:
        odd = pc.or_(odd, pc.invert(pc.match_substring_regex(texts, _DIGITS)))
        numbers = pc.if_else(odd, "nan", texts).cast(pa.float64())
    return numbers.to_numpy(), odd.to_numpy(zero_copy_only=False)
