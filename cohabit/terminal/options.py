"""What every part of the command line shares: options, settings, and errors in one line."""

import errno
import os
from collections.abc import Callable, Mapping
from functools import wraps
from inspect import cleandoc
from math import isfinite
from typing import Annotated, ParamSpec, TypeVar

import typer

from cohabit.config.errors import CohabitError
from cohabit.config.logs import set_up_logs
from cohabit.config.settings import Settings, read_settings
from cohabit.terminal.console import show_error

P = ParamSpec("P")
R = TypeVar("R")
MAX_ROWS = 500_000
"""Training rows that are learnt from and judged at most, by default: some 4 GB of memory."""
FOLDS_DIFFER = (
    "figures of `cohabit model train` rest on 3 folds of apps and 2 origins, those of `cohabit model evaluate` on 6 "
    "folds and up "
    "to 4 origins, whose models learn from more: on the same lake the two differ"
)
LakeOption = Annotated[str | None, typer.Option("--lake", help="Folder or bucket of the lake [COHABIT_LAKE].")]
FOUND, BLIND = 1, 3
"""Exit codes of commands that look for victims: some were found, nothing could be looked at."""

OUT_OF_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
"""What a full or read-only disk says, without the name of a file where it comes from Arrow."""


def reports_errors(command: Callable[P, R]) -> Callable[P, R]:
    """Turn the errors that our packages raise into one red line and exit code 1; its help fits terminals."""
    return _reports(command, 1)


def reports_blindness(command: Callable[P, R]) -> Callable[P, R]:
    """The same with exit code BLIND, for commands that look for victims: what fails has not looked."""
    return _reports(command, BLIND)


def _reports(command: Callable[P, R], code: int) -> Callable[P, R]:
    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        from advisor.errors import AdvisorError
        from features.schema.errors import FeaturesError
        from ingest.schema.errors import IngestError
        from models.errors import ModelsError

        set_up_logs("WARNING")
        try:
            _refuse_endless(kwargs)
            return command(*args, **kwargs)
        except (IngestError, FeaturesError, ModelsError, AdvisorError, CohabitError) as error:
            show_error(error)
            raise typer.Exit(code) from error
        except OSError as error:
            if error.filename is None and error.errno not in OUT_OF_ROOM:
                raise
            where = error.filename or "a file"
            show_error(CohabitError(f"{where}: {error.strerror}; check the path, its permissions and free disk space"))
            raise typer.Exit(code) from error

    run.__doc__ = flowing(command.__doc__ or "")
    return run


def flowing(text: str) -> str:
    """Help with each paragraph on one line: typer keeps line breaks of all but the first, whatever the width."""
    return "\n\n".join(" ".join(paragraph.split("\n")) for paragraph in cleandoc(text).split("\n\n"))


def _refuse_endless(options: Mapping[str, object]) -> None:
    """Bounds of an option let NaN through, which is neither above nor below anything.

    Raises:
        CohabitError: a figure is no number, or has no end.
    """
    for name, value in options.items():
        if isinstance(value, float) and not isfinite(value):
            raise CohabitError(f"--{name.replace('_', '-')} {value}: give a number")


def settings() -> Settings:
    """Settings from the environment."""
    return read_settings(os.environ)
