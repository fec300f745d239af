"""History: each change of a bundle's status, when and by whom, a line each, next to it in the registry. An edge."""

import os
from typing import Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, ValidationError

from models.errors import ModelsError
from models.registry.registry import Registry

HISTORY = ".history.jsonl"


class Event(BaseModel):
    """Another bundle became current."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    at: AwareDatetime
    what: Literal["promoted", "forced", "rolled back"]
    bundle: str
    """That is current since."""
    before: str | None
    """That was current until then."""
    by: str
    why: str = ""


def note(registry: Registry, event: Event) -> None:
    """Add a line; on disk when this returns.

    Raises:
        ModelsError: it cannot be written.
    """
    path = registry.root / HISTORY
    try:
        with path.open("ab") as file:
            file.write(event.model_dump_json().encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise ModelsError(
            f"{event.bundle} is current now, but {path} does not record who did that ({error.strerror or str(error)}): "
            "write it down yourself"
        ) from error


def events(registry: Registry) -> list[Event]:
    """All of them, oldest first; a line that a crash left broken is skipped."""
    try:
        lines = (registry.root / HISTORY).read_bytes().splitlines()
    except FileNotFoundError:
        return []
    found = []
    for line in lines:
        try:
            found.append(Event.model_validate_json(line))
        except ValidationError:
            continue
    return found
