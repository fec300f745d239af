"""The error of the features package, and the check that most of its kernels begin with."""

from collections.abc import Sized


class FeaturesError(Exception):
    """Something in features cannot go on; the message says what to do."""


def refuse_other_lengths(**columns: Sized) -> None:
    """Raise FeaturesError unless columns of the same rows have one length."""
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise FeaturesError(f"columns of the same rows differ in length: {lengths}")
