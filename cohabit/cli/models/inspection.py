"""`cohabit model`: explain, reproduce."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from cohabit.cli.models.lifecycle import model_app
from cohabit.cli.models.models import RegistryOption
from cohabit.terminal.console import console, show_table
from cohabit.terminal.options import LakeOption, reports_errors, settings

if TYPE_CHECKING:
    from models.bundle.bundle import Bundle

__all__ = ["model_app"]
Bundled = Annotated[str | None, typer.Argument(help="Of a bundle; left out, the champion.")]


@model_app.command("explain")
@reports_errors
def explain_command(
    name: Bundled = None,
    app: Annotated[str | None, typer.Option(help="Only containers of this app.")] = None,
    node: Annotated[str | None, typer.Option(help="Only containers on this node.")] = None,
    container: Annotated[str | None, typer.Option(help="Only this container, by uid.")] = None,
    top: Annotated[int, typer.Option(min=1, help="Number of features to show.")] = 10,
    lake: LakeOption = None,
    registry: RegistryOption = None,
) -> None:
    """Explain a container's predicted slowdown by the features that contribute most.

    Reads the newest training rows that match; of several, the container with the largest predicted slowdown is shown.
    Contributions are exact Shapley values of the model, as factors: the expected slowdown times all factors is the
    prediction. A factor above 1 slows the container down.
    """
    from cohabit.lifecycle.prediction import explain
    from cohabit.terminal.locations import existing_lake

    bundle = _bundle(name, registry)
    found = explain(existing_lake(settings(), lake), bundle, (app, node, container))
    rest = found.predicted / found.expected
    for _, factor in found.factors[:top]:
        rest /= factor
    rows = [
        ("expected without features", f"{found.expected:.3f}"),
        *((feature, f"x {factor:.3f}") for feature, factor in found.factors[:top]),
        *([(f"{len(found.factors) - top} other features", f"x {rest:.3f}")] if len(found.factors) > top else []),
        ("predicted slowdown", f"{found.predicted:.3f}"),
        ("measured slowdown", f"{found.measured:.3f}"),
    ]
    show_table(f"{found.app}, container {found.container} on {found.node}", ("feature", "factor"), rows)
    console.print(f"bundle {bundle.directory.name}, five minutes until {found.window_end:%Y-%m-%d %H:%M} UTC")


@model_app.command("reproduce")
@reports_errors
def reproduce_command(name: Bundled = None, lake: LakeOption = None, registry: RegistryOption = None) -> None:
    """Train a bundle's models again from its provenance and compare them byte for byte; exits 1 on any difference.

    Uses the rows, the sample and the settings that the bundle's manifest names; the lake must still hold these rows.
    Writes nothing to the registry. Takes as long as training without evaluation.
    """
    from cohabit.terminal.locations import existing_lake
    from cohabit.training.retrain import retrain

    bundle = _bundle(name, registry)
    with TemporaryDirectory() as folder, console.status("training again"):
        found = retrain(existing_lake(settings(), lake), bundle, Path(folder))
    rows = [(part, "the same" if same else "different") for part, same in found.same.items()]
    show_table(f"bundle {bundle.directory.name}, trained again on {found.rows:,} rows", ("file", ""), rows)
    raise typer.Exit(not all(found.same.values()))


def _bundle(name: str | None, registry: Path | None) -> "Bundle":
    from cohabit.config.errors import CohabitError
    from cohabit.terminal.locations import registry_of
    from features.schema.catalog import catalogue_hash
    from models.bundle.bundle import load_bundle

    shelf = registry_of(settings(), registry)
    directory = shelf.current() if name is None else shelf.bundle(name).directory
    if directory is None:
        raise CohabitError(f"{shelf.root} has no champion: name a bundle of `cohabit model list`, or promote one")
    return load_bundle(directory, catalogue_hash(), shelf.trust)
