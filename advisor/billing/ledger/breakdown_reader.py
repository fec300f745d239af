"""Drilling: the lines of one account of a month, read from files that are written once. An edge.

Files are read a piece at a time, and only those that the account has postings in. What was added up is kept for a few
accounts, since files never change and people turn pages.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from advisor.billing.ledger.breakdown import summed
from advisor.billing.ledger.drafts import Batch, not_ready
from advisor.billing.lines.parquet import pieces, references

BY = ("container", "kind")
LINE = (
    "hour",
    "kind",
    "account",
    "container",
    "node",
    "resource",
    "amount_micros",
    "memo_micros",
    "micro_unit_minutes",
    "unit_price_micros",
    "evidence",
)
SIGNED = ("amount_micros", "memo_micros")
KEPT = 8
"""Accounts of which sums are kept."""


@dataclass
class Drilling:
    """Where lines are read.

    Args:
        folder: of files of lines.
    """

    folder: Path
    _kept: OrderedDict[tuple[str, ...], pa.Table] = field(default_factory=OrderedDict, init=False)
    _one_at_a_time: Lock = field(default_factory=Lock, init=False)
    """Bounds memory for any number of clients."""

    def containers(self, batches: Sequence[Batch], account: str) -> pa.Table:
        """What an account owes by container and kind, the most first; see advisor.billing.ledger.breakdown.summed.

        Raises:
            Unavailable: a file is not there any more, or was changed.
        """
        key = (account, *(f"{batch.sign}{batch.sha256}" for batch in batches))
        with self._one_at_a_time:
            if key not in self._kept:
                own = self._own(batches, account, (*BY, "account", "amount_micros"))
                self._kept[key] = summed(((batch.sign, rows) for batch, _, rows in own), BY)
                while len(self._kept) > KEPT:
                    self._kept.popitem(last=False)
            return self._kept[key]

    def hours(self, batches: Sequence[Batch], account: str, container: str | None) -> pa.Table:
        """The lines of a container, None for those about no container, by hour and resource: LINE and `line`, its name.

        Raises:
            Unavailable: a file is not there any more, or was changed.
        """
        with self._one_at_a_time:
            found = [_about(rows, container) for rows in self.lines(batches, account)]
        order = [(name, "ascending") for name in ("hour", "resource", "kind", "node", "line")]
        return pa.concat_tables(found).sort_by(order) if found else pa.table({name: [] for name in (*LINE, "line")})

    def lines(self, batches: Sequence[Batch], account: str) -> Iterator[pa.Table]:
        """All lines of an account, a piece at a time, as `hours` has them; what is taken back has other signs.

        Raises:
            Unavailable: a file is not there any more, or was changed.
        """
        for batch, places, rows in self._own(batches, account, LINE):
            signed = rows
            for name in SIGNED:
                signed = signed.set_column(LINE.index(name), name, pc.multiply(rows[name], batch.sign))
            yield signed.append_column("line", references(batch.sha256, places))

    def missing(self, batches: Sequence[Batch]) -> int:
        """How many of these files are not there, or what they were made of is not."""
        return sum(not self._path(batch).is_file() or not self._inputs(batch).is_file() for batch in batches)

    def refuse_missing(self, period: str, batches: Sequence[Batch]) -> None:
        """Nothing, if all that a month is to be closed with is there.

        Raises:
            Conflict: some files are not.
        """
        if count := self.missing(batches):
            gone = f"{count} of its {len(batches)} files are not in {self.folder}"
            raise not_ready(period, [f"{gone}: reopen the month (`cohabit bill reopen`) and draft it again"])

    def _own(
        self, batches: Sequence[Batch], account: str, columns: Sequence[str]
    ) -> Iterator[tuple[Batch, pa.Array, pa.Table]]:
        """Lines of the account and their places, file by file."""
        for batch in batches:
            if all(one.account != account for one in batch.postings):
                continue
            for first, piece in pieces(self._path(batch), columns):
                places = np.flatnonzero(pc.equal(piece["account"], account).to_numpy())
                if len(places):
                    yield batch, pa.array(first + places), piece.take(pa.array(places))

    def _path(self, batch: Batch) -> Path:
        return self.folder / f"{batch.sha256}.parquet"

    def _inputs(self, batch: Batch) -> Path:
        return self.folder / f"{batch.inputs_sha256}.inputs"


def _about(rows: pa.Table, container: str | None) -> pa.Table:
    of = rows["container"]
    return rows.filter(of.is_null() if container is None else pc.equal(of, container))
