"""`cohabit capacity`: what apps should request, for capacity planners."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cohabit.config.errors import CohabitError
from cohabit.terminal.console import console
from cohabit.terminal.options import BLIND, LakeOption, reports_blindness, settings

if TYPE_CHECKING:
    from cohabit.capacity.rightsize_apps import Sized

capacity_app = typer.Typer(no_args_is_help=True, help="Recommend requests. Nothing is changed in the cluster.")
FORMS = {"vpa": "VerticalPodAutoscalers", "resize": "resizes of pods"}


@capacity_app.callback()
def capacity() -> None:
    """Recommend requests. Nothing is changed in the cluster."""


@capacity_app.command("rightsize")
@reports_blindness
def rightsize_command(
    *,
    lake: LakeOption = None,
    days: Annotated[float, typer.Option(min=0.01, max=366, help="Days up to the newest label.")] = 8.0,
    risk: Annotated[
        float, typer.Option(min=0.001, max=0.5, help="Share of container-minutes whose demand may exceed the request.")
    ] = 0.05,
    app: Annotated[str | None, typer.Option(help="Only this app.")] = None,
    memory_margin: Annotated[
        float, typer.Option(min=0.0, max=10.0, help="Added to the largest memory use, as a share of it.")
    ] = 0.15,
    cpu_floor: Annotated[float, typer.Option(min=0.0, max=1000.0, help="Smallest CPU request, cores.")] = 0.025,
    memory_floor: Annotated[float, typer.Option(min=0.0, max=1e6, help="Smallest memory request, MiB.")] = 250.0,
    price_book: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Price book (TOML); adds the saving of a month.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Also write all recommendations here.")
    ] = None,
    export: Annotated[
        tuple[str, Path] | None,
        typer.Option(metavar="vpa|resize FILE", help="Also write VPA objects or in-place resizes (YAML) for review."),
    ] = None,
) -> None:
    """Recommend a CPU and memory request for each app, with what it frees, for review.

    CPU is the quantile of demand at [bold]undisturbed speed[/]: what an app would use without neighbours and without
    its own limit. Minutes that a CPU limit throttled, or whose CPU queue never emptied, are raised, as use was hidden;
    minutes in which neighbours added CPU time to each request are lowered. Memory is the largest use plus a margin.
    A floor is named where it speaks. A recommendation may be a raise.

    [dim]cohabit capacity rightsize --risk 0.02 --price-book book.toml --export vpa recommendations.yaml[/]

    It begins with how much was looked at. An app needs 20 minutes beyond its quantile: 400 minutes at a risk of 5 %.
    Exit codes: 0, at least one app has a recommendation; 3, none has one, or the command failed. Run it after
    `cohabit features`. Nothing is changed in the cluster. docs/rightsizing.md explains the method.
    """
    from advisor.capacity.rightsize import MIB, Rule
    from cohabit.billing.price_book_file import read_price_book
    from cohabit.capacity.rightsize_apps import rightsized
    from cohabit.capacity.rightsize_export import as_json
    from cohabit.capacity.tables import show_sized
    from cohabit.cli.admin.token import local_name
    from cohabit.terminal.locations import existing_lake

    if export is not None and export[0] not in FORMS:
        raise CohabitError(f"--export {export[0]} {export[1]}: give vpa or resize, then a file")
    book = None if price_book is None else read_price_book(price_book, local_name())
    rule = Rule(risk, memory_margin, cpu_floor, memory_floor * MIB)
    opened = existing_lake(settings(), lake, reads=True)
    with console.status("reading node state and labels"):
        sized = rightsized(opened, days, rule, app)
    show_sized(sized, rule, book)
    if out is not None:
        out.write_bytes(as_json(sized, book))
        console.print(f"written: {out}", soft_wrap=True)
    if export is not None:
        _export(sized, *export)
    raise typer.Exit(0 if any(not one.reason for one in sized.found) else BLIND)


def _export(sized: "Sized", form: str, file: Path) -> None:
    from cohabit.capacity.rightsize_export import as_resizes, as_vpa

    text, count = as_vpa(sized) if form == "vpa" else as_resizes(sized)
    file.write_text(text)
    needs = "" if count else ": placements name no workload" if form == "vpa" else ": placements name no pod"
    console.print(
        f"written: {file}, {count:,} {FORMS[form]} of {len(sized.pods):,} running containers{needs}; review them, "
        "nothing was applied",
        soft_wrap=True,
    )
