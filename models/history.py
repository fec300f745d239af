"""History: what became of bundles, when and by whom, a line each, beside them in the registry. An edge."""

import os
from typing import Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, ValidationError

from models.registry import Registry

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
    """Add a line; on disk when this returns."""
    with (registry.root / HISTORY).open("ab") as file:
        file.write(event.model_dump_json().encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def events(registry: Registry) -> list[Event]:
    """All of them, oldest first; a line that a crash left broken is passed over."""
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
