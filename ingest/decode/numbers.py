"""Numbers written as text, as Prometheus and OpenTelemetry do. Kernel."""

MAX_DIGITS = 40
SPACE = b" "


def number_of_text(value: object) -> object:
    """The number a text holds, NaN and infinities included; whatever is no such text stays as it is."""
    if type(value) is not str or len(value) > MAX_DIGITS or "_" in value:  # Python's own 1_000 is no format's
        return value
    try:
        return float(value)
    except ValueError:
        return value


def number_of_bytes(text: bytes) -> float | None:
    """The number that ASCII holds and nothing else, not even white space; None where a closer look is needed."""
    if len(text) > MAX_DIGITS or b"_" in text or not (text[:1] > SPACE and text[-1:] > SPACE):
        return None
    try:
        return float(text)
    except ValueError:
        return None
