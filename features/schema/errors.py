"""Errors of the features package, one class per action a caller can take."""


class FeaturesError(Exception):
    """Something in features cannot go on; the message says what to do."""


class LengthMismatch(FeaturesError):
    """Columns that describe the same rows differ in length."""

    def __init__(self, **lengths: int) -> None:
        self.lengths = lengths
        super().__init__(f"columns of the same rows differ in length: {lengths}")


class FewerThanStrata(FeaturesError):
    """A sample so small that some strata could not send a single row."""

    def __init__(self, max_rows: int, strata: int) -> None:
        self.max_rows, self.strata = max_rows, strata
        super().__init__(
            f"{max_rows:,} training rows cannot stand for {strata:,} strata (app, band of slowdown, band of "
            f"pressure): ask for {strata:,} rows at least"
        )


class MixedCurrencies(FeaturesError):
    """Bills of one pool and hour are in several currencies."""

    def __init__(self, bills: list[str], currencies: list[str]) -> None:
        self.bills, self.currencies = tuple(bills), tuple(currencies)
        super().__init__(
            f"bills {', '.join(bills)} name costs of the same pool and hour in {', '.join(currencies)}: nothing is "
            "converted; import them again in one currency"
        )


class BadBill(FeaturesError):
    """A bill that cannot be imported."""

    def __init__(self, bill: str, line: int, column: str, reason: str) -> None:
        self.bill, self.line, self.column, self.reason = bill, line, column, reason
        super().__init__(f"bill {bill!r}, line {line}, column {column}: {reason}; nothing was imported")
