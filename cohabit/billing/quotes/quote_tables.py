"""Quote tables: what a container would cost, as people read it in a terminal."""

from advisor.billing.interference.expected_adjustment import Amounts, Named, Transfers
from advisor.billing.lines.money import written
from advisor.billing.pricing.price_book import utc
from advisor.billing.quotes.cost_estimate import Quote
from advisor.billing.quotes.quote_diff import Change
from advisor.billing.quotes.service import Answer
from cohabit.terminal.console import console, show_table

HOUR_MICROS = 60_000_000


def show_answer(answer: Answer) -> None:
    """A quote; of a container that runs what it costs as it is, and the difference."""
    if answer.before is not None and answer.change is not None:
        _show_change(answer.before, answer.quote, answer.change)
    _show_charges(answer.quote)
    transfers = answer.quote.transfers
    if transfers is None:
        console.print(f"what interference would move is not known: {answer.quote.why}", soft_wrap=True)
        return
    _show_transfers(answer.quote, transfers)


def _show_charges(of: Quote) -> None:
    """An hour, resource by resource, and all of them."""
    where = f"on node {of.node}, pool {of.pool}" if of.node is not None else f"in pool {of.pool}"
    rows = [
        (
            charge.need.resource,
            _units(charge.need.request),
            _units(charge.need.use),
            f"{charge.micro_unit_minutes / HOUR_MICROS:,.3f} {charge.unit}",
            f"{charge.unit_price_micros / 1e6:.6f}",
            written(charge.amount_micros),
        )
        for charge in of.charges
    ]
    prices = f"an hour by price book {of.book.version}, {of.book.currency}"
    title = f"{of.asked.account}, tier {of.asked.tier}, {where}: {prices}"
    show_table(title, ("resource", "request", "use", "billed", "a unit", "amount"), rows)
    hours = f"{of.asked.hours:,} hour{'s' if of.asked.hours > 1 else ''}"
    console.print(
        f"base charge of {hours}: {written(of.base_micros, of.book.currency)}, by what was sold in the hour from "
        f"{utc(of.hour_us)}",
        soft_wrap=True,
    )


def _show_transfers(of: Quote, transfers: Transfers) -> None:
    """Expected interference adjustments, and the neighbours."""
    slow, currency = transfers.slowdown, of.book.currency
    total = of.with_transfers
    assert total is not None  # noqa: S101 - there are transfers
    say = "would be (shadow mode: not charged yet)" if of.shadow else "is expected"
    basis = ", judged by waiting alone: no ground for a rebate" if slow.by_waiting else ""
    for line in (
        f"expected slowdown there {slow.mean:.2f} ({slow.low:.2f} to {slow.high:.2f}){basis}",
        f"rebate {_range(transfers.rebate, currency)}; count on the lower end",
        f"surcharge {_range(transfers.surcharge, currency)}",
        f"with both it {say}: {_range(total, currency)}; owed: {written(of.owed_micros, currency)}",
    ):
        console.print(line, soft_wrap=True)
    if transfers.neighbours:
        columns = ("neighbour", "app", "team", "adds to it", "it adds", f"its part, {currency}", "beyond its request")
        show_table("neighbours", columns, [_neighbour(one) for one in transfers.neighbours])
    else:
        console.print("no neighbours")


def _neighbour(one: Named) -> tuple[str, ...]:
    of = one.of
    known = (of.container, of.app or "", one.team or "not metered yet")
    return (*known, f"{of.adds:.3f}", f"{of.added:.3f}", written(one.share_micros), "yes" if one.liable else "no")


def _show_change(before: Quote, after: Quote, change: Change) -> None:
    """As it is, as it is quoted, and the difference."""
    rows = [("base", written(before.base_micros), written(after.base_micros), written(change.base_micros))]
    old, new = before.transfers, after.transfers
    if old is not None and new is not None and change.rebate is not None and change.surcharge is not None:
        rows.append(("rebate", _range(old.rebate), _range(new.rebate), _range(change.rebate)))
        rows.append(("surcharge", _range(old.surcharge), _range(new.surcharge), _range(change.surcharge)))
    if before.with_transfers is not None and after.with_transfers is not None and change.total is not None:
        rows.append(("with both", _range(before.with_transfers), _range(after.with_transfers), _range(change.total)))
    rows.append(("owed", written(before.owed_micros), written(after.owed_micros), written(change.owed_micros)))
    title = f"{after.asked.container}, {after.book.currency}"
    show_table(title, ("", f"as it is, {before.node}", f"quoted, {after.node}", "difference"), rows)


def _range(of: Amounts, currency: str = "") -> str:
    return f"{written(of.expected, currency)} ({written(of.low)} to {written(of.high)})"


def _units(amount: float | None) -> str:
    return "" if amount is None else f"{amount:,.3f}"
