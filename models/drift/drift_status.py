"""Drift status: how far the current model is believed, kept in the registry for serving processes. Facts."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from ingest.schema.atomic_file import replace_atomically
from models.errors import ModelsError
from models.registry.registry import Registry, trained_name

STATUS = ".drift.json"
KEPT = 50
"""Changes of state that are remembered."""
WIDEST = 4.0
"""Margins are never stretched by more."""
State = Literal["fine", "widened", "fallen_back"]
STATES: tuple[State, ...] = ("fine", "widened", "fallen_back")
"""In the order in which a model is believed less."""
Finite = Annotated[float, Field(allow_inf_nan=False)]


class Signal(BaseModel):
    """One thing that is watched."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Literal["coverage", "residual", "ranking", "stability", "age", "skew"]
    value: Finite | None
    """None where it is not known."""
    low: Finite | None = None
    high: Finite | None = None
    limit: Finite
    alarm: bool
    message: str
    """In words, such as which features moved."""


class Change(BaseModel):
    """From one state to another, and why."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    at: AwareDatetime
    bundle: str
    state: State
    widening: Annotated[float, Field(ge=1, le=WIDEST)]
    why: str


class DriftStatus(BaseModel):
    """How far the current model is believed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: int = 1
    bundle: str
    """Name of the one that was trained, without what followed labels since."""
    state: State = "fine"
    widening: Annotated[float, Field(ge=1, le=WIDEST)] = 1.0
    """What margins are served multiplied by."""
    checked_at: AwareDatetime
    labels_until: AwareDatetime | None = None
    """End of the newest window whose label was looked at."""
    calm: int = 0
    """Checks of newer labels in a row that found nothing."""
    signals: tuple[Signal, ...] = ()
    changes: tuple[Change, ...] = ()
    """The newest ones, oldest first, of earlier bundles too."""


def read_status(registry: Registry) -> DriftStatus | None:
    """What the last check wrote; None before the first one.

    Raises:
        ModelsError: something else is there.
    """
    path = _path(registry)
    try:
        return DriftStatus.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise ModelsError(
            f"{path} is no status of drift ({str(error).splitlines()[0]}): remove it, and run `cohabit model drift`"
        ) from error


def write_status(registry: Registry, status: DriftStatus) -> None:
    """Write the status that serving processes read from now on."""
    replace_atomically(_path(registry), status.model_dump_json(indent=2).encode())


def status_of(registry: Registry, bundle: str) -> DriftStatus | None:
    """The status, where it is of a bundle with the same models; None where nothing is known against it."""
    status = read_status(registry)
    return status if status is not None and status.bundle == trained_name(bundle) else None


def _path(registry: Registry) -> Path:
    return registry.root / STATUS
