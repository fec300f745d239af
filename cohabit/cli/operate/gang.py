"""`cohabit plan gang`: where a group of pods would start together, or why it cannot."""

from collections import Counter
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING, Annotated

import typer

from cohabit.config.errors import CohabitError
from cohabit.terminal.console import console, printable, show_amounts
from cohabit.terminal.options import FOUND, reports_blindness, settings

if TYPE_CHECKING:
    from advisor.gangs.gang_desk import Asked
    from advisor.gangs.gang_request import GangRequest


@reports_blindness
def gang_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Body of POST /v1/gangs (JSON).")],
) -> None:
    """Show the domain and nodes where a gang would start whole, at what cost, or why it cannot. Reserves nothing.

    The gang is placed by the newest snapshot and model, with the reservations of other gangs taken off where there is
    a database.

    Exit codes: 0, it can start; 1, it cannot; 3, the file was refused or there is no snapshot or model.
    docs/gangs.md has the file and an example.
    """
    from prometheus_client import CollectorRegistry

    from advisor.admission.room_file import read_rooms
    from advisor.gangs.gang_costs import exact_costs
    from advisor.gangs.gang_desk import Asked, GangDesk, Seen, placed_by
    from advisor.gangs.gang_request import Infeasible
    from advisor.placement.model_state import Serving
    from cohabit.server.assembly import store_in
    from cohabit.terminal.locations import registry_of

    request = _request(file)
    own = settings()
    serving = Serving(own.snapshots, registry_of(own), own.advisor.max_feature_age_s, _now_us, CollectorRegistry())
    serving.reload()
    snapshot, rooms = serving.snapshot, read_rooms(own.snapshots)
    if snapshot is None:
        raise CohabitError(f"no snapshot in {own.snapshots}: run `cohabit refresh`")
    console.print(f"by snapshot {snapshot.version}, {max(serving.age_s(), 0.0):,.0f} s old")
    costs = partial(exact_costs, serving.scorer)
    with store_in(own) as store:
        if store is None:
            asked = Asked(placed_by(request, snapshot, rooms, costs, Seen(_now_us())))
        else:
            asked = GangDesk(store, lambda: snapshot, lambda: rooms, costs, _now_us).ask(request)
    _show(request, asked)
    raise typer.Exit(FOUND if isinstance(asked.placement, Infeasible) else 0)


def _now_us() -> int:
    return time_ns() // 1000


def _request(file: Path) -> "GangRequest":
    from pydantic import ValidationError

    from advisor.api.v1.gangs import GangAsk

    try:
        return GangAsk.model_validate_json(file.read_bytes()).request()
    except (OSError, ValidationError) as error:
        raise CohabitError(f"{file} is no gang: {' '.join(str(error).split())[:500]}") from error


def _show(request: "GangRequest", asked: "Asked") -> None:
    from advisor.gangs.gang_request import Infeasible

    found, reserved, group = asked.placement, asked.reservation, printable(request.group)
    if isinstance(found, Infeasible):
        at = found.earliest_us
        lacks = ", ".join(f"{count} {printable(name)}" for name, count in found.missing.items())
        console.print(f"{group} cannot start whole: {printable(found.best)}")
        console.print(f"without a place: {lacks}")
        if at is not None:
            console.print(f"enough running gangs end by {datetime.fromtimestamp(at / 1e6, UTC):%Y-%m-%d %H:%M} UTC")
        return
    if reserved is not None:
        console.print(f"{group} has reservation {reserved.id}")
    places = found.seats if found is not None else reserved.slots if reserved is not None else ()
    said = found or reserved
    if said is None:
        return
    console.print(f"{group}: {len(places)} members in {said.level} {printable(said.domain)}", soft_wrap=True)
    console.print(f"interference cost {said.cost:.3f}; a container at twice its baseline costs 2")
    counts = Counter((seat.node, request.members[seat.member].name) for seat in places)
    rows = [(node, name, str(count)) for (node, name), count in sorted(counts.items())]
    show_amounts("places", ("node", "class", "members"), rows)
