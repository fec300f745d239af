"""Labels as texts, whatever an exporter put in their place. Kernel."""

from collections.abc import Mapping


def texts_of(labels: Mapping[str, object]) -> dict[str, str]:
    """Labels with numbers and flags written out; null and what is nested is empty, as if absent."""
    return {name: text_of(value) for name, value in labels.items()}


def values_of(labels: Mapping[str, object]) -> tuple[str, ...]:
    """Values of labels as texts, in their order; those that are texts already, as is usual, are taken as they are."""
    values = tuple(labels.values())
    return tuple(map(text_of, values)) if set(map(type, values)) - {str} else values  # type: ignore[return-value]


def text_of(value: object) -> str:
    """A label's value as text."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, str | int | float) else ""
