"""Currencies: in how many digits behind the point each is paid. Kernel."""

from advisor.billing.lines.errors import UnknownCurrency
from ingest.schema.currencies import BY_DIGITS, MEANT


def exponent_of(code: str) -> int:
    """Digits behind the point that a currency is paid in: 0, 2 or 3.

    Raises:
        UnknownCurrency: it is none, or not one that is paid in.

    Source: ISO 4217:2015, list one.
    """
    for digits, codes in BY_DIGITS.items():
        if code in codes.split():
            return digits
    raise UnknownCurrency(code, MEANT.get(code.strip().upper(), ""))
