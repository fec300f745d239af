"""Drafts: what a month would be closed with: files of lines and what they sum to. Facts and their JSON."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from math import floor

import msgspec

from advisor.billing.ledger.postings import Posting, owed, refuse_unbalanced
from advisor.errors import Conflict, Unavailable

FORMAT = 1
MAX_LISTED = 3
"""Accounts that a complaint names."""
MAX_NAME = 200
"""Letters of an account that the store has room for, a pool's own account too."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One file of lines, as it is billed or taken back.

    Args:
        about: month that its hours lie in; another one than it is billed in where it is a correction.
        pool: pool whose cost it apportions.
        start_us: start of the day that its hours lie in, microseconds since 1970.
        sha256: of the file, hex; its name.
        inputs_sha256: of the file with what it was made of.
        rows: lines.
        cost_micros: what the pool cost in that time, as it was metered or billed.
        book: version of the price book.
        policy: of its policy.
        model: hash of the model that slowdowns come from; empty where none was needed.
        postings: what they sum to; of a file that is taken back with other signs than its lines have.
        corrects: number of the batch that it takes back, or stands in for; None for what was not billed before.
        sign: -1 where it takes back a file that was billed, else 1.
    """

    about: str
    pool: str
    start_us: int
    sha256: str
    inputs_sha256: str
    rows: int
    cost_micros: int
    book: str
    policy: str
    model: str
    postings: tuple[Posting, ...]
    corrects: int | None = None
    sign: int = 1

    @property
    def key(self) -> tuple[str, int, str]:
        """What no two files of a month have alike: pool, day, version of the price book."""
        return self.pool, self.start_us, self.book

    @property
    def amount_micros(self) -> int:
        """What its lines sum to."""
        return sum(owed(self.postings).values())


@dataclass(frozen=True, slots=True)
class Seen:
    """In how much of an account's container time interference could be seen.

    Args:
        account: whose latency-sensitive containers.
        windows: five-minute windows in which they ran.
        labelled: of them, with a label.
    """

    account: str
    windows: int
    labelled: int


@dataclass(frozen=True, slots=True)
class Draft:
    """A month as it would be closed.

    Args:
        format: of this record.
        cluster: whose.
        period: month, as in 2026-11.
        currency: ISO 4217, of all its amounts.
        batches: files, by pool and time.
        seen: for what interference could be seen, by account; None where nothing is given back for it, or unknown.
    """

    format: int
    cluster: str
    period: str
    currency: str
    batches: tuple[Batch, ...]
    seen: tuple[Seen, ...] | None = None

    @property
    def postings(self) -> tuple[Posting, ...]:
        """Of all batches."""
        return tuple(one for batch in self.batches for one in batch.postings)


def refuse_wrong(draft: Draft) -> None:
    """Nothing, for a draft that a month can be closed with.

    Raises:
        Conflict: lines do not sum to what the pool cost, two batches are of one file, there is nothing at all, or an
            account has a name that cannot be kept.
        AdvisorError: postings do not sum to zero.
    """
    reasons = [] if draft.batches else ["it has no metered hours: run `cohabit bill meter`"]
    for batch in draft.batches:
        refuse_unbalanced(batch.pool, batch.postings)
        if batch.amount_micros != batch.sign * batch.cost_micros:
            wrong = f"charges of pool {batch.pool} sum to {batch.amount_micros} micro-units, not {batch.cost_micros}"
            reasons.append(wrong)
    named = [(batch.about, batch.key, batch.sign) for batch in draft.batches]
    if len(set(named)) != len(named):
        reasons.append("it contains a day of a pool twice")
    reasons += _unkept(draft)
    if reasons:
        raise not_ready(draft.period, reasons)


def _unkept(draft: Draft) -> list[str]:
    """What is wrong with names of accounts that PostgreSQL would refuse once the month is closed."""
    names = sorted({one.account for one in draft.postings})
    return [
        f"account {name[:80]!r} has {len(name)} characters or contains NUL (limit {MAX_NAME}): map it to another "
        "name (COHABIT_MAPPING), and meter again"
        for name in names
        if len(name) > MAX_NAME or "\0" in name
    ][:MAX_LISTED]


def draft_json(draft: Draft) -> bytes:
    """The draft as it is kept: the same bytes for the same draft."""
    fields = msgspec.to_builtins(draft, order="deterministic")
    if draft.seen is None:  # drafts of before it keep their name
        del fields["seen"]
    return msgspec.json.encode(fields)


def draft_from(content: bytes) -> Draft:
    """A draft that was kept.

    Raises:
        Unavailable: it is none, or of another format.
    """
    try:
        found = msgspec.json.decode(content, type=Draft)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _unreadable_draft("draft", str(error)) from error
    if found.format != FORMAT:
        raise _unreadable_draft("draft", f"its format is {found.format}, and this Cohabit reads {FORMAT}")
    return found


def seen_sentence(seen: Sequence[Seen]) -> str:
    """For which share of container time interference could be seen."""
    ran, labelled = (sum(getattr(one, name) for one in seen) for name in ("windows", "labelled"))
    if not ran:
        return "no latency-sensitive container ran, so nothing could be given back for interference"
    return (
        f"interference could be seen in {floor(100 * labelled / ran + 1e-9)}% of the time of latency-sensitive "
        "containers: nothing could be given back for the rest"
    )


def digest_of(draft: Draft) -> str:
    """What a draft is called, so that what is closed is what was looked at: SHA-256, hex."""
    return hashlib.sha256(draft_json(draft)).hexdigest()


def _unreadable_draft(what: str, reason: str) -> Unavailable:
    return Unavailable(f"{what} cannot be read: {reason}; upgrade Cohabit if a newer version wrote it")


def not_ready(period: str, reasons: Sequence[str]) -> Conflict:
    """A period cannot be closed yet, or its sums are wrong."""
    return Conflict(f"period {period} cannot be closed: {'; '.join(reasons)}")
