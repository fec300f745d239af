"""Drafts: what a month would be closed with: files of lines and what they sum to. Facts and their JSON."""

import hashlib
from dataclasses import dataclass

import msgspec

from advisor.ledger.errors import NotReady, UnreadableDraft
from advisor.ledger.postings import Posting, owed, refuse_unbalanced

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Batch:
    """One file of lines.

    Args:
        pool: whose cost it shares out.
        sha256: of the file, hex; its name.
        inputs_sha256: of the file with what it was made of; empty for corrections, which are made of batches.
        rows: lines.
        cost_micros: what the pool cost in that time, as it was metered or billed; None for corrections.
        book: version of the price book.
        policy: of its policy.
        model: hash of the model that slowdowns come from; empty where none was needed.
        postings: what they sum to.
        corrects: number of the batch that it takes back or replaces; None for what is new.
    """

    pool: str
    sha256: str
    inputs_sha256: str
    rows: int
    cost_micros: int | None
    book: str
    policy: str
    model: str
    postings: tuple[Posting, ...]
    corrects: int | None = None

    @property
    def amount_micros(self) -> int:
        """What its lines sum to."""
        return sum(owed(self.postings).values())


@dataclass(frozen=True, slots=True)
class Draft:
    """A month as it would be closed.

    Args:
        format: of this record.
        cluster: whose.
        period: month, as in 2026-11.
        currency: ISO 4217, of all its amounts.
        batches: files, by pool and time.
    """

    format: int
    cluster: str
    period: str
    currency: str
    batches: tuple[Batch, ...]

    @property
    def postings(self) -> tuple[Posting, ...]:
        """Of all batches."""
        return tuple(one for batch in self.batches for one in batch.postings)


def refuse_wrong(draft: Draft) -> None:
    """Nothing, for a draft that a month can be closed with.

    Raises:
        NotReady: lines do not sum to what the pool cost, two batches are of one file, or there is nothing at all.
        Unbalanced: postings do not sum to zero.
    """
    reasons = [] if draft.batches else ["nothing was metered in it (`cohabit bill meter`)"]
    for batch in draft.batches:
        refuse_unbalanced(batch.pool, batch.postings)
        if batch.cost_micros is not None and batch.amount_micros != batch.cost_micros:
            wrong = (
                f"lines of pool {batch.pool} sum to {batch.amount_micros} micro-units, and it cost {batch.cost_micros}"
            )
            reasons.append(wrong)
    named = [(batch.sha256, batch.corrects) for batch in draft.batches]
    if len(set(named)) != len(named):
        reasons.append("a file of lines is in it twice")
    if reasons:
        raise NotReady(draft.period, reasons)


def draft_json(draft: Draft) -> bytes:
    """The draft as it is kept: the same bytes for the same draft."""
    return msgspec.json.encode(draft, order="deterministic")


def draft_from(told: bytes) -> Draft:
    """A draft that was kept.

    Raises:
        UnreadableDraft: it is none, or of another format.
    """
    try:
        found = msgspec.json.decode(told, type=Draft)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnreadableDraft("draft", str(error)) from error
    if found.format != FORMAT:
        raise UnreadableDraft("draft", f"its format is {found.format}, and this Cohabit reads {FORMAT}")
    return found


def digest_of(draft: Draft) -> str:
    """What a draft is called, so that what is closed is what was looked at: SHA-256, hex."""
    return hashlib.sha256(draft_json(draft)).hexdigest()
