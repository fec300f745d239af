"""Books: versions of the price book as they are kept, and which of them are in force. Facts and their JSON."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from advisor.billing.ledger.months import bounds
from advisor.billing.lines.errors import BadPriceBook
from advisor.billing.pricing.price_book import PriceBook, added, utc
from advisor.errors import Conflict, Unavailable


@dataclass(frozen=True, slots=True)
class Kept:
    """A version of the price book in the store.

    Args:
        book: as it was proposed; signed once a second person approved it.
        proposed_us: when, microseconds since 1970.
        approved_us: the same; None before approval.
        withdrawn_by: who withdrew it before it began; None while it is not withdrawn.
    """

    book: PriceBook
    proposed_us: int
    approved_us: int | None = None
    withdrawn_by: str | None = None

    @property
    def state(self) -> str:
        """In a word: proposed, approved or withdrawn."""
        if self.withdrawn_by is not None:
            return "withdrawn"
        return "approved" if self.approved_us is not None else "proposed"


def book_json(book: PriceBook) -> bytes:
    """A version as it is kept, without who approved it: the same bytes for the same one."""
    return msgspec.json.encode(replace(book, approved_by=None), order="deterministic")


def book_from(kept: bytes) -> PriceBook:
    """A version that was kept.

    Raises:
        Unavailable: it is none.
    """
    try:
        return msgspec.json.decode(kept, type=PriceBook)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Unavailable(f"price book cannot be read: {error}; upgrade Cohabit if a newer version wrote it") from error


def in_force(kept: Sequence[Kept]) -> tuple[PriceBook, ...]:
    """The versions that hours are billed by, by time; one without an end ends where the next one begins.

    Args:
        kept: all that there are; those that were not approved, or were withdrawn, do not count.
    """
    found: tuple[PriceBook, ...] = ()
    for one in sorted((k for k in kept if k.state == "approved"), key=lambda k: k.book.start_us):
        found = added(found, one.book, one.book.start_us - 1)
    return found


def refuse_decided(one: Kept) -> None:
    """Nothing, for a version without a decision.

    Raises:
        Conflict: it has one.
    """
    if one.withdrawn_by is not None:
        raise Conflict(f"price book {one.book.version!r} was already withdrawn by {one.withdrawn_by}")
    if one.approved_us is not None:
        raise Conflict(f"price book {one.book.version!r} was already approved by {one.book.approved_by or ''}")


def refuse_far(book: PriceBook) -> None:
    """Nothing, for a version whose times lie in months that can be billed; others cannot even be written down.

    Raises:
        BadPriceBook: it begins or ends before 2000 or after 2099.
    """
    first_us, last_us = (round(at.timestamp() * 1e6) for at in (bounds("2000-01")[0], bounds("2099-12")[1]))
    if not all(first_us <= at <= last_us for at in (book.start_us, book.end_us) if at is not None):
        raise BadPriceBook(book.version, ["its start or end is outside 2000-01 to 2099-12: check its year"])


def summary(book: PriceBook) -> str:
    """From when until when it applies, in words."""
    until = "until the next version begins" if book.end_us is None else f"until {utc(book.end_us)}"
    return f"from {utc(book.start_us)} {until}"
