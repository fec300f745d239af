"""Errors of the features package, one class per action a caller can take."""


class FeaturesError(Exception):
    """Something in features cannot go on; the message says what to do."""


class LengthMismatch(FeaturesError):
    """Columns that describe the same rows differ in length."""

    def __init__(self, **lengths: int) -> None:
        self.lengths = lengths
        super().__init__(f"columns of the same rows differ in length: {lengths}")
