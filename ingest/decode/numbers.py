"""Numbers written as text, as Prometheus and OpenTelemetry do. Kernel."""

MAX_DIGITS = 40


def number_of_text(value: object) -> object:
    """The number a text holds, NaN and infinities included; whatever is no such text stays as it is."""
    if type(value) is not str or len(value) > MAX_DIGITS or "_" in value:  # Python's own 1_000 is no format's
        return value
    try:
        return float(value)
    except ValueError:
        return value
