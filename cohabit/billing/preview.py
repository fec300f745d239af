"""Previewing: what a past month would have come to by a version of the price book that is not in force. An edge.

Both sides are billed from the lake as it is now, so that only the price books differ; nothing is kept.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from advisor.billing.ledger.drafts import Draft
from advisor.billing.ledger.months import bounds
from advisor.billing.ledger.postings import owed
from advisor.billing.pricing.price_book import PriceBook, refuse_wrong
from cohabit.billing.draft import Progress, draft_of
from cohabit.config.errors import CohabitError
from ingest.lake.tables import Lake


def unkept_draft(lake: Lake, cluster: str, period: str, *, books: Sequence[PriceBook], progress: Progress) -> Draft:
    """As cohabit.billing.draft.draft_of, of which no file is left.

    Raises:
        Invalid, Conflict, NotFound: as it.
    """
    with TemporaryDirectory(prefix="cohabit-lines-") as name:
        folder = Path(name)

        def forget(day: str, lines: int) -> None:
            for file in folder.iterdir():
                file.unlink()
            progress(day, lines)

        return draft_of(lake, cluster, period, books=books, folder=folder, progress=forget)


APPROVER = "preview, not approved"


@dataclass(frozen=True, slots=True)
class Changed:
    """What an account owes for a month, micro-units.

    Args:
        account: a team, platform or unattributed.
        before_micros: by the price books in force; 0 where it owes nothing.
        after_micros: by the one that is previewed; the same.
    """

    account: str
    before_micros: int
    after_micros: int

    @property
    def more_micros(self) -> int:
        """By how much that is more, or less."""
        return self.after_micros - self.before_micros


@dataclass(frozen=True, slots=True)
class Preview:
    """A month by the price books in force and by another one.

    Args:
        period: it.
        currency: of both.
        books: versions in force that it is billed by; none while there is none at all.
        book: the version that is previewed.
        cost_micros: what its pools cost.
        accounts: by name.
    """

    period: str
    currency: str
    books: tuple[str, ...]
    book: str
    cost_micros: int
    accounts: tuple[Changed, ...]


def preview(
    lake: Lake, cluster: str, period: str, *, books: Sequence[PriceBook], proposed: PriceBook, progress: Progress
) -> Preview:
    """Bill a month twice: by the price books in force, and by another one as if that had applied in all of it.

    Args:
        lake: where hours were metered.
        cluster: whose.
        period: month, as in 2026-11.
        books: versions in force; while there is none, the month is billed by the proposed one alone.
        proposed: a version; from when it applies and who approved it makes no difference.
        progress: called day by day, twice.

    Raises:
        Invalid: it is no month.
        BadPriceBook: the version cannot be billed by.
        CohabitError: it is in another currency than the month.
        Conflict: nothing was metered in it.
        NotFound, Conflict: an hour cannot be billed.
    """
    refuse_wrong(proposed)
    if not books:
        return _first(lake, cluster, period, proposed=proposed, progress=progress)
    before = unkept_draft(lake, cluster, period, books=books, progress=progress)
    if before.currency != proposed.currency:
        raise CohabitError(
            f"price book {proposed.version!r} is in {proposed.currency}, but {period} is billed in {before.currency}: "
            f"preview it with currency = {before.currency!r}; only the ratios of its prices matter"
        )
    after = unkept_draft(lake, cluster, period, books=[moved_to(proposed, period)], progress=progress)
    used = tuple(dict.fromkeys(batch.book for batch in before.batches))
    cost = sum(batch.cost_micros for batch in before.batches)
    accounts = changes(owed(before.postings), owed(after.postings))
    return Preview(period, before.currency, used, proposed.version, cost, accounts)


def _first(lake: Lake, cluster: str, period: str, *, proposed: PriceBook, progress: Progress) -> Preview:
    """A month by the first version that there ever is: there is nothing to compare with."""
    only = unkept_draft(lake, cluster, period, books=[moved_to(proposed, period)], progress=progress)
    cost, amounts = sum(batch.cost_micros for batch in only.batches), owed(only.postings)
    return Preview(period, only.currency, (), proposed.version, cost, changes(amounts, amounts))


def moved_to(book: PriceBook, period: str) -> PriceBook:
    """A version as if it had begun with a month, and had been approved.

    Raises:
        Invalid: it is no month.
    """
    start_us = round(bounds(period)[0].timestamp() * 1e6)
    return replace(book, start_us=start_us, end_us=None, approved_by=APPROVER)


def changes(before: Mapping[str, int], after: Mapping[str, int]) -> tuple[Changed, ...]:
    """What each account owes by either, by name."""
    return tuple(Changed(name, before.get(name, 0), after.get(name, 0)) for name in sorted({*before, *after}))
