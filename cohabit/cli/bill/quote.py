"""`cohabit bill quote`: what a container would cost before it comes, changes or moves."""

from math import isfinite
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING, Annotated

import typer

from cohabit.cli.bill.close import till
from cohabit.config.errors import CohabitError
from cohabit.config.logs import set_up_logs
from cohabit.terminal.options import LakeOption, reports_errors, settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from advisor.billing.quotes.cost_estimate import Need
    from advisor.billing.quotes.service import Answer, Ask

quote_app = typer.Typer()


@quote_app.command("quote")
@reports_errors
def quote_command(
    container: Annotated[
        str | None, typer.Option("--container", help="Uid of a running container; default: estimate a new one.")
    ] = None,
    request: Annotated[
        list[str] | None,
        typer.Option("--request", metavar="RESOURCE=UNITS", help="Such as cpu=4 or memory=16 (GiB); repeatable."),
    ] = None,
    use: Annotated[
        list[str] | None,
        typer.Option("--use", metavar="RESOURCE=UNITS", help="Expected average use; default: the request."),
    ] = None,
    team: Annotated[str | None, typer.Option("--team", help="Team of a new container.")] = None,
    app: Annotated[str | None, typer.Option("--app", help="App of a new container, for its interference.")] = None,
    tier: Annotated[str | None, typer.Option("--tier", help="Tier of a new container, as in the price book.")] = None,
    node: Annotated[str | None, typer.Option("--node", help="Node of a new container.")] = None,
    pool: Annotated[
        str | None, typer.Option("--pool", help="Pool of a new container, instead of a node; without interference.")
    ] = None,
    move_to: Annotated[str | None, typer.Option("--move-to", help="Target node of a running container.")] = None,
    hours: Annotated[int, typer.Option("--hours", help="That it runs.")] = 1,
    lake: LakeOption = None,
    snapshots: Annotated[Path | None, typer.Option(help="Folder of snapshots [COHABIT_SNAPSHOTS].")] = None,
) -> None:
    """Estimate the cost of a container: base charge by request and use, adjustments by interference.

    A new one:         cohabit bill quote --team shop --app web --node n1 --request cpu=4 --use cpu=3 --hours 720

    Another request:   cohabit bill quote --container UID --request cpu=6

    Another node:      cohabit bill quote --container UID --move-to n2

    The base charge is that of the newest metered hour, with the container included. Rebate and surcharge for
    interference are predicted by the promoted model on that node, with an interval; they are not charged while the
    price book is in shadow mode.
    """
    from advisor.billing.quotes.service import Ask
    from cohabit.billing.quotes.quote_tables import show_answer

    new = {"--team": team, "--app": app, "--tier": tier, "--node": node, "--pool": pool}
    _refuse_mixed(container, move_to, [name for name, value in new.items() if value is not None])
    needs = _needs(request or [], use or [])
    ask = Ask(container, needs, team, app, tier, node, pool, move_to, hours)
    show_answer(_answer(ask, lake, snapshots))


def _answer(ask: "Ask", lake: str | None, snapshots: Path | None) -> "Answer":
    """By the store, the lake, the newest snapshot and the promoted model."""
    from advisor.billing.quotes.dependencies import BillOffice
    from advisor.billing.quotes.service import answered, grounds_of
    from cohabit.billing.quotes.last_hour import NewestHour
    from cohabit.cli.operate.serve import source_of

    def now_us() -> int:
        return time_ns() // 1000

    set_up_logs("ERROR")  # missing inputs are reported with the estimate and do not stop it
    own = settings()
    with till() as of:
        office = BillOffice(of.closing, of.lines, newest=NewestHour(own, now_us, lake))
        return answered(ask, grounds_of(office, source_of(own, snapshots=snapshots).opened(now_us)))


def _refuse_mixed(container: str | None, move_to: str | None, new: "Sequence[str]") -> None:
    """Refuse options of new containers together with a running one, and the reverse."""
    if container is None and move_to is not None:
        raise CohabitError(
            "--move-to needs --container: only a running container can move; name the node of a new one with --node"
        )
    if container is not None and new:
        raise CohabitError(f"{', '.join(new)}: omit these for a running container, they are known")


def _needs(request: "Sequence[str]", use: "Sequence[str]") -> "tuple[Need, ...]":
    from advisor.billing.quotes.cost_estimate import Need

    asked, used = _amounts("--request", request), _amounts("--use", use)
    return tuple(Need(name, asked.get(name), used.get(name)) for name in dict.fromkeys([*asked, *used]))


def _amounts(option: str, values: "Sequence[str]") -> dict[str, float]:
    """Units by resource, of texts such as cpu=4.

    Raises:
        CohabitError: one is no such text, names what is not metered, or names it twice.
    """
    from advisor.billing.quotes.cost_estimate import METERED_NAMES

    found = dict[str, float]()
    for text in values:
        name, _, units = text.partition("=")
        amount = _number(units)
        if name not in METERED_NAMES or amount is None or name in found:
            raise CohabitError(
                f"{option} {text}: write RESOURCE=UNITS such as cpu=4, each once; there are {', '.join(METERED_NAMES)}"
            )
        found[name] = amount
    return found


def _number(text: str) -> float | None:
    try:
        amount = float(text)
    except ValueError:
        return None
    return amount if isfinite(amount) and amount >= 0 else None
