"""Unkept billing: what a month comes to, without keeping anything of it. An edge.

Files of lines lie in a temporary folder (TMPDIR), a day's at a time, and are gone afterwards.
"""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from advisor.billing.ledger.drafts import Draft
from advisor.billing.pricing.price_book import PriceBook
from cohabit.billing.draft import Progress, draft_of
from ingest.lake.tables import Lake


def unkept_draft(lake: Lake, cluster: str, period: str, *, books: Sequence[PriceBook], progress: Progress) -> Draft:
    """As cohabit.billing.draft.draft_of, of which no file is left.

    Raises:
        BadPeriod, NotReady, NoPrice, NoCost: as it.
    """
    with TemporaryDirectory(prefix="cohabit-lines-") as name:
        folder = Path(name)

        def forget(day: str, lines: int) -> None:
            for file in folder.iterdir():
                file.unlink()
            progress(day, lines)

        return draft_of(lake, cluster, period, books=books, folder=folder, progress=forget)
