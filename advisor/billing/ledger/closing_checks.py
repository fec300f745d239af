"""Checks: conditions on a draft before a month is closed with it, in a readable form. Kernel."""

from dataclasses import dataclass

from advisor.billing.ledger.drafts import Draft
from advisor.billing.lines.money import written


@dataclass(frozen=True, slots=True)
class Check:
    """Something that has to hold.

    Args:
        what: it is, in a sentence.
        fine: whether it holds.
        detail: the numbers behind it.
    """

    what: str
    fine: bool
    detail: str


def checks_of(draft: Draft, missing: int, ledger_micros: int) -> tuple[Check, ...]:
    """What has to hold of a month as it would be closed.

    Args:
        draft: of the month.
        missing: how many of its files are not there.
        ledger_micros: what all postings of earlier months sum to.

    Returns:
        One for the sums of pools, of postings and of the ledger, and for the files.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0049-billing.md.
    """
    cost = sum(batch.sign * batch.cost_micros for batch in draft.batches)
    billed = sum(batch.amount_micros for batch in draft.batches)
    apart = sum(batch.amount_micros != batch.sign * batch.cost_micros for batch in draft.batches)
    posted = sum(one.amount_micros for one in draft.postings)
    lines = sum(batch.rows for batch in draft.batches)
    return (
        Check(
            "Charge records sum to the cost of the pool in each file",
            apart == 0,
            f"{written(billed, draft.currency)} of {written(cost, draft.currency)}; {apart} files differ",
        ),
        Check("Postings of the draft sum to 0", posted == 0, f"{posted} micro-units"),
        Check("Postings of earlier months sum to 0", ledger_micros == 0, f"{ledger_micros} micro-units"),
        Check(
            "Charge files exist",
            missing == 0,
            f"{len(draft.batches)} files, {lines:,} charge records; {missing} missing",
        ),
    )
