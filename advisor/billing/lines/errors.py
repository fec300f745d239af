"""Errors of pricing that a caller catches."""

from collections.abc import Sequence

from advisor.errors import AdvisorError


class UnknownCurrency(AdvisorError):
    """A currency that ISO 4217 does not list."""

    def __init__(self, code: str, instead: str) -> None:
        other = f"write {instead}" if instead else "give three capital letters such as USD, EUR or CNY"
        super().__init__(f"{code[:20]!r} is not an ISO 4217 payment currency: {other}")


class BadPriceBook(AdvisorError):
    """A version of the price book that is not usable for billing."""

    def __init__(self, version: str, reasons: Sequence[str]) -> None:
        super().__init__(f"invalid price book {version!r}: {'; '.join(reasons)}")


class BadBookText(AdvisorError):
    """A text that is not a version of the price book."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the price book cannot be parsed: {reason}")
