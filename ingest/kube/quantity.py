"""Kubernetes quantities: 250m, 1Gi, 1e3, 2k; and resources by name. Kernel."""

import re
from collections.abc import Mapping
from fractions import Fraction

_QUANTITY = re.compile(
    r"([+-]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40}))(?:[eE]([+-]?[0-9]{1,2})|([a-zA-Z]{0,2}))"
)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_UNITS = {name: Fraction(10) ** power for name, power in _DECIMAL.items()}
_UNITS |= {name: Fraction(2) ** power for name, power in _BINARY.items()}


def parse_quantity(text: str) -> Fraction:
    """The exact amount that a quantity says, in its resource's own unit (cores, bytes, pieces).

    Args:
        text: a number, then nothing, a decimal suffix (n u m k M G T P E), a binary one (Ki Mi Gi Ti Pi Ei) or an
            exponent (e3, E-2). A lone E is exa; E with digits is an exponent. No spaces.

    Raises:
        ValueError: it is no quantity.

    Source: Kubernetes API reference, Quantity (k8s.io/apimachinery/pkg/api/resource).
    """
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:40]!r} is no quantity, like 250m or 1Gi")
    number, exponent, suffix = Fraction(match[1]), match[2], match[3] or ""
    if exponent is not None:
        return number * Fraction(10) ** int(exponent)
    if suffix not in _UNITS:
        raise ValueError(f"{text[:40]!r} is no quantity: there is no suffix {suffix!r}")
    return number * _UNITS[suffix]


PLACED_OTHERWISE = ("cpu", "memory", "pods", "ephemeral-storage", "storage")
"""Resources that have columns of their own, or of which requests are seldom complete."""


def extended(amounts: Mapping[str, Fraction]) -> dict[str, str]:
    """Amounts of extended resources and huge pages, as decimal numbers in text, by name."""
    return {name: str(float(amount)) for name, amount in sorted(amounts.items()) if name not in PLACED_OTHERWISE}
