"""Lines: what everything ends in. A line says who pays or gets how much, for what, and by which rules. Facts, and JSON.

Lines are never changed: what was wrong is taken back by a new line.
"""

import hashlib
from dataclasses import dataclass
from typing import Literal, get_args

import msgspec

from advisor.errors import AdvisorError

Kind = Literal[
    "base",
    "unattributed",
    "idle_headroom",
    "idle_stranded",
    "idle_lead_time",
    "idle_failure",
    "scarcity",
    "scarcity_true_up",
    "rebate",
    "surcharge",
    "platform_share",
    "rounding",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
FORMAT = 1
PLATFORM = "platform"
"""The account of the cluster's operator."""
UNATTRIBUTED = "unattributed"
"""The account of cost without a known cause."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """Where and when, and by which rules; shared by the lines of a pool's hour.

    Args:
        period: that is closed as a whole, such as 2026-11.
        pool: machine class and site.
        hour_us: when the hour begins, microseconds since 1970; None for lines of the whole period.
        book: version of the price book.
        policy: version of its policy.
        model: hash of the model that slowdowns come from; None where none is needed.
    """

    period: str
    pool: str
    hour_us: int | None
    book: str
    policy: str
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Subject:
    """Who pays or gets it, and what it is about; None where that makes no sense.

    Args:
        account: a team, PLATFORM or UNATTRIBUTED.
        container: its uid.
        node: where.
        resource: as the price book calls it.
    """

    account: str
    container: str | None = None
    node: str | None = None
    resource: str | None = None


@dataclass(frozen=True, slots=True)
class Billed:
    """How an amount comes about, where it is a quantity at a price.

    Args:
        micro_unit_minutes: 60,000,000 are a unit for an hour.
        unit: of the resource.
        unit_price_micros: micro-units of currency for a unit and hour, the tier counted in.
    """

    micro_unit_minutes: int
    unit: str
    unit_price_micros: float


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that the amount was worked out from."""

    name: str
    value: int | float | str


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a ledger.

    Args:
        format: of this record.
        id: of stamp, subject and kind, so that working it out again gives the same one.
        stamp: where, when, by which rules.
        subject: who, and of what.
        kind: what for.
        amount_micros: micro-units of the book's currency; positive is owed by the account, negative owed to it.
        memo_micros: what it would be, where the amount is 0 because it is only shown as yet.
        billed: quantity and price; None for what is shared out.
        evidence: what else it was worked out from.
    """

    format: int
    id: str
    stamp: Stamp
    subject: Subject
    kind: Kind
    amount_micros: int
    memo_micros: int | None = None
    billed: Billed | None = None
    evidence: tuple[Fact, ...] = ()


def line_id(stamp: Stamp, subject: Subject, kind: Kind) -> str:
    """A name that is the same whenever the line is worked out again, whatever its amount: 32 hexadecimal digits."""
    what = (stamp.period, stamp.pool, stamp.hour_us, kind)
    who = (subject.account, subject.container, subject.node, subject.resource)
    return hashlib.sha256(msgspec.json.encode((*what, *who))).hexdigest()[:32]


def line_of(stamp: Stamp, subject: Subject, kind: Kind, amount_micros: int, evidence: tuple[Fact, ...] = ()) -> Line:
    """A line of an amount that is shared out."""
    return Line(FORMAT, line_id(stamp, subject, kind), stamp, subject, kind, amount_micros, evidence=evidence)


def line_json(line: Line) -> bytes:
    """The line as it is kept and handed on."""
    return msgspec.json.encode(line)


def line_from(content: bytes) -> Line:
    """A line that was kept.

    Raises:
        AdvisorError: it is none, or of another format.
    """
    try:
        found = msgspec.json.decode(content, type=Line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _unreadable_line(str(error)) from error
    if found.format != FORMAT:
        raise _unreadable_line(f"its format is {found.format}, and this Cohabit reads {FORMAT}")
    return found


def _unreadable_line(reason: str) -> AdvisorError:
    return AdvisorError(f"a charge record cannot be read: {reason}; upgrade Cohabit if a newer version wrote it")
