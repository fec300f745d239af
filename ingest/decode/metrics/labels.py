"""Labels as texts, whatever an exporter put in their place. Kernel."""

from collections.abc import Iterable, Mapping

TEXTS = {str}


def texts_of(labels: Mapping[str, object]) -> dict[str, str]:
    """Labels with numbers and flags written out; null and what is nested is empty, as if absent."""
    return {name: text_of(value) for name, value in labels.items()}


def values_of(values: Iterable[object]) -> tuple[object, ...]:
    """Values of labels as texts; where all are texts already, as is usual, they are taken as they are."""
    found = tuple(values)
    return found if TEXTS.issuperset(map(type, found)) else tuple(map(text_of, found))


def text_of(value: object) -> str:
    """A label's value as text."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, str | int | float) else ""
