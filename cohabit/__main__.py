"""`cohabit`, and `python -m cohabit`. Processes that a command starts import this too, and have no use for commands."""

import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("ingest", "features", "models", "advisor")


def main() -> None:
    """Run the command that was typed."""
    other = shadowing()
    if other is not None:
        sys.exit(
            f"error: {other.parent} holds a package named {other.name!r}, which Python imports instead of Cohabit's. "
            f"Run `cohabit` rather than `python -m cohabit`, in another folder, and take {other.parent} off PYTHONPATH."
        )
    if sys.argv[1:] == ["--version"]:  # scripts ask often, and importing the commands takes half a second
        sys.stdout.write(f"cohabit {version('cohabit')}\n")
        return
    from cohabit.cli.main import main as run

    run()


def shadowing() -> Path | None:
    """A folder that hides one of Cohabit's packages; None where each is the one next to this package."""
    home = Path(__file__).resolve().parents[1]
    specs = {name: find_spec(name) for name in PACKAGES}
    places = {name: Path(spec.origin).resolve().parent for name, spec in specs.items() if spec and spec.origin}
    return next((place for name, place in places.items() if place != home / name), None)


if __name__ == "__main__":
    main()
