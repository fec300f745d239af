"""Bill tables: price books, months, drafts and explained lines, as people read them in a terminal."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import cast

from rich.table import Table

from advisor.billing.ledger.drafts import Draft, digest_of, seen_sentence
from advisor.billing.ledger.periods import Period
from advisor.billing.ledger.postings import Payables, payables
from advisor.billing.ledger.price_book_records import Kept, in_force, summary
from advisor.billing.lines.accounts import POOL
from advisor.billing.lines.money import MICROS, exponent_of, in_coins, written
from cohabit.billing.statements.explain import Explained
from cohabit.terminal.console import console, printable, show_amounts

HOUR_MICROS = 60 * MICROS


def show_books(kept: Sequence[Kept]) -> None:
    """Versions of the price book."""
    table = Table(title="price books", title_justify="left")
    for heading in ("version", "applies", "currency", "state", "proposed by", "approved by"):
        table.add_column(heading)
    force = {book.version: book for book in in_force(kept)}
    for one in kept:
        book = force.get(one.book.version, one.book)
        table.add_row(book.version, summary(book), book.currency, one.state, book.proposed_by, book.approved_by or "")
    console.print(table if kept else "there is no price book: cohabit bill propose-book")


def show_months(periods: Sequence[Period], total_micros: int) -> None:
    """Months and whether the ledger sums to zero."""
    table = Table(title="months", title_justify="left")
    for heading in ("month", "state", "since", "by", "draft"):
        table.add_column(heading)
    for one in periods:
        since = f"{datetime.fromtimestamp(one.changed_us / 1e6, UTC):%Y-%m-%d %H:%M} UTC"
        table.add_row(one.period, one.state, since, one.changed_by, one.digest[:12])
    console.print(table if periods else "no month was closed, or is being closed")
    console.print("all postings sum to 0" if not total_micros else f"postings sum to {total_micros} instead of 0")


def show_state(of: Period) -> None:
    """Whether a month is closed, since when and by whom."""
    since = f"since {datetime.fromtimestamp(of.changed_us / 1e6, UTC):%Y-%m-%d %H:%M} UTC, by {of.changed_by}"
    states = {
        "open": f"{of.period} is open: cohabit bill close --month {of.period}",
        "closing": f"{of.period} is being closed {since}: cohabit bill close --month {of.period} "
        f"--confirm {of.digest[:12]}",
        "closed": f"{of.period} is closed {since}",
    }
    console.print(states[of.state], soft_wrap=True)


def show_draft(draft: Draft) -> None:
    """What accounts would owe, by kind; sums of pools; checks."""
    kinds = sorted({one.kind for one in draft.postings if not one.account.startswith(POOL)})
    sums, exponent = _sums(draft), exponent_of(draft.currency)
    pays = payables(draft.postings, exponent).minor
    rows = [
        (account, *(_money(sums.get((account, kind), 0)) for kind in kinds), in_coins(pays[account], exponent))
        for account in sorted(pays)
    ]
    whole = [_money(sum(amount for (_, of), amount in sums.items() if of == kind)) for kind in kinds]
    rows.append(("together", *whole, in_coins(sum(pays.values()), exponent)))
    columns = ("account", *(kind.replace("_", " ") for kind in kinds), "pays")
    show_amounts(f"{draft.period}, draft {digest_of(draft)[:12]}, {draft.currency}", columns, rows)
    _show_sums(draft, sum(sums.values()))
    if draft.seen is not None:
        console.print(seen_sentence(draft.seen), soft_wrap=True)


def _show_sums(draft: Draft, billed: int) -> None:
    """Whether lines come to what the pools cost, and what of it is about earlier months."""
    cost = sum(batch.sign * batch.cost_micros for batch in draft.batches)
    lines = sum(batch.rows for batch in draft.batches)
    console.print(
        f"{lines:,} lines in {len(draft.batches)} files come to {written(billed, draft.currency)}; pools cost "
        f"{written(cost, draft.currency)}{'' if billed == cost else ': THAT IS NOT THE SAME'}",
        soft_wrap=True,
    )
    for about in sorted({batch.about for batch in draft.batches} - {draft.period}):
        of_it = sum(batch.amount_micros for batch in draft.batches if batch.about == about)
        console.print(f"{written(of_it, draft.currency)} of that correct {about}", soft_wrap=True)


def show_payables(period: str, found: Payables, currency: str) -> None:
    """What accounts pay, in coins."""
    exponent = exponent_of(currency)
    rows = [(name, written(found.owed_micros[name]), in_coins(minor, exponent)) for name, minor in found.minor.items()]
    whole = written(sum(found.owed_micros.values())), in_coins(sum(found.minor.values()), exponent)
    show_amounts(f"{period} is closed, {currency}", ("account", "owes", "pays"), [*rows, ("together", *whole)])
    console.print(f"{written(found.residue_micros, currency)} are what no coin can pay")


def show_explained(reference: str, found: Explained) -> None:
    """A line, step by step."""
    line, currency = found.line, found.book.currency
    _say(f"line {reference}: {line['kind']}, {line['account']}, {written(_int(line['amount_micros']), currency)}")
    where = f"container {line['container']} on {line['node']}" if line["container"] else "about no container"
    hour = line["hour"] or "all hours of the file"
    _say(f"pool {found.batch.batch.pool}, hour {hour}, {where}")
    for row in found.metered:
        _show_metered(row, found)
    if not found.metered:
        _show_evidence(found)
    for row in found.idle:
        _show_idle(row)
    cost = sum(_int(pool["cost_micros"]) for pool in found.pools)
    sources = ", ".join(sorted({str(pool["cost_source"]) for pool in found.pools}))
    _say(f"the pool cost {written(cost, currency)} in that time (by {sources})")
    _say(f"shared by {found.hour_lines} lines, by price book {found.book.version}, each to the micro-unit")
    _say("worked out again: the same" if found.same else f"worked out again: NOT THE SAME: {found.again}")


def _show_evidence(found: Explained) -> None:
    """What else a line was worked out from, and what it would be where it is only shown."""
    memo = found.line["memo_micros"]
    if memo is not None:
        _say(f"only shown as yet: it would be {written(_int(memo), found.book.currency)}")
    for name, value in _evidence(found.line).items():
        _say(f"{name.replace('_', ' ')}: {value}")


def _show_idle(row: Mapping[str, object]) -> None:
    """What was free for a cause, and whose doing that was."""
    teams = dict(cast("Iterable[tuple[str, int]]", row["by_team"]))
    added = ", ".join(f"{team} adds {amount / HOUR_MICROS:.6f}" for team, amount in teams.items())
    _say(f"{row['resource']}: {_int(row['quantity']) / HOUR_MICROS:.6f} unit-hours{added and f' ({added})'}")


def _show_metered(row: Mapping[str, object], found: Explained) -> None:
    rule, line = found.book.policy.rule, found.line
    sums = {name: _int(row[name]) / HOUR_MICROS for name in ("requested", "within", "beyond")}
    _say(
        f"{row['resource']}: {sums['requested']:.6f} requested, {sums['within']:.6f} used within that, "
        f"{sums['beyond']:.6f} beyond it, unit-hours in {row['minutes']} minutes; {row['gap_minutes']} not known"
    )
    price = float(str(line["unit_price_micros"])) / MICROS
    because = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in _evidence(line).items())
    _say(
        f"{rule.kappa:g} x requested + {1 - rule.kappa:g} x within + {rule.beta:g} x beyond = "
        f"{_int(line['micro_unit_minutes']) / HOUR_MICROS:.6f} unit-hours, "
        f"at {price:.9f} {found.book.currency} each ({because})"
    )


def _say(text: str) -> None:
    """A line that names what charge records hold."""
    console.print(printable(text))


def _evidence(line: Mapping[str, object]) -> Mapping[str, object]:
    """What else a line was worked out from, by name."""
    facts = line["evidence"]
    found: Mapping[str, object] = json.loads(str(facts)) if facts else {}
    return found


def _sums(draft: Draft) -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], int] = {}
    for one in draft.postings:
        if not one.account.startswith(POOL):
            found[one.account, one.kind] = found.get((one.account, one.kind), 0) + one.amount_micros
    return found


def _money(micros: int) -> str:
    return f"{Decimal(micros) / MICROS:,.2f}"


def _int(value: object) -> int:
    return value if isinstance(value, int) else 0
