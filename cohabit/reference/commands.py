"""Every command with its help, arguments, options and defaults, from the command line itself."""

from collections.abc import Iterator
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any

from cohabit.reference.markdown import NONE, as_text, code, page, table

KINDS = {int: "integer", float: "number", str: "text", Path: "path", datetime: "time", bool: "yes or no"}


def commands_page(root: Any) -> str:
    """The reference of the command line, from the group that holds all commands."""
    about = (
        "Every command, from the command line itself; `cohabit COMMAND --help` prints the same. Where an option "
        "names a "
        "variable, that is what counts when it is left out. `cohabit --version` prints the installed version. "
        "`make reference` writes this page."
    )
    return page("Commands", about, (_section(" ".join(path), of) for path, of in commands(root)))


def commands(root: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Each command and group that is shown, with its words; of `cohabit` itself none.

    Args:
        root: the group that holds all; what typer makes of it has no public type.
    """
    for name, of in getattr(root, "commands", {}).items():
        if not of.hidden:
            yield (name,), of
            yield from (((name, *rest), one) for rest, one in commands(of))


def _section(words: str, of: Any) -> str:
    """A command; of a group its purpose, and its commands follow."""
    level = "##" if " " not in words else "###"
    text = as_text(of.help or "")
    if getattr(of, "commands", None):
        return f"{level} cohabit {words}\n\n{text}\n"
    taken = [one for one in of.params if one.name != "help" and not one.hidden]
    usage = " ".join(["cohabit", words, *(_placed(one) for one in taken if _is_argument(one)), "[OPTIONS]"])
    rows = [(code(_written(one)), _kind(one), _default(one), as_text(one.help or "")) for one in taken]
    options = f"\n{table(('argument or option', 'value', 'default', 'meaning'), rows)}" if rows else ""
    return f"{level} cohabit {words}\n\n```text\n{usage}\n```\n\n{text}\n{options}"


def _is_argument(one: Any) -> bool:
    return bool(one.param_type_name == "argument")


def _placed(one: Any) -> str:
    name = one.metavar or one.name.upper()
    return name if one.required else f"[{name}]"


def _written(one: Any) -> str:
    if _is_argument(one):
        return str(one.metavar or one.name.upper())
    return " / ".join([*one.opts, *one.secondary_opts])


def _kind(one: Any) -> str:
    """What may be given: its kind, and its bounds where there are some."""
    if getattr(one, "is_flag", False):
        return "–"
    of = one.type_descriptor.annotation
    if isinstance(of, type) and issubclass(of, Enum):
        return ", ".join(str(choice.value) for choice in of)
    low, high = getattr(one, "min", None), getattr(one, "max", None)
    bounds = "" if low is None and high is None else f" from {low}" if high is None else f" up to {high}"
    bounds = f" from {low} to {high}" if low is not None and high is not None else bounds
    return f"{KINDS.get(of, as_text(str(one.metavar or 'text')))}{bounds}{', repeatable' if one.multiple else ''}"


def _default(one: Any) -> str:
    if one.required:
        return "needed"
    if one.default is None or one.default is False or callable(one.default):
        return NONE
    return code(str(one.default.value if isinstance(one.default, Enum) else one.default))
