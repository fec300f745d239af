"""Capacity reports: the newest demand forecast, purchase plan and what-if, as files next to the snapshots.

An edge: `cohabit capacity` writes them, servers and pages read them.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, NonNegativeFloat, NonNegativeInt, ValidationError

from advisor.cluster.newest_file import NewestFile
from advisor.errors import AdvisorError, Unavailable
from ingest.schema.atomic_file import replace_atomically

MAX_BYTES = 16 << 20
"""Some thousand series with their history, or ten thousand orders."""


class _Part(BaseModel):
    model_config = ConfigDict(use_attribute_docstrings=True, frozen=True, extra="forbid")


class SeriesPoint(_Part):
    """Demand at a time, as measured or as forecast."""

    at_us: NonNegativeInt
    """Start of the hour, microseconds since 1970."""
    low: FiniteFloat
    """What demand is above with 90 % probability; of the past, what was measured."""
    middle: FiniteFloat
    """Median forecast; of the past, what was measured."""
    high: FiniteFloat
    """What demand is below with 90 % probability; of the past, what was measured."""


class DaysUntilFull(_Part):
    """When demand reaches capacity, in days from the end of the measurements; null beyond what can be forecast."""

    low: NonNegativeFloat | None
    """Earliest day of the 80 % interval."""
    middle: NonNegativeFloat | None
    """Median."""
    high: NonNegativeFloat | None
    """Latest day of the 80 % interval."""


class PoolForecast(_Part):
    """Demand for one resource of one pool."""

    pool: str
    """Pool of nodes."""
    resource: str
    """Resource, such as `cpu`."""
    kind: str
    """`request` or `use`."""
    unit: str
    """Unit of all its amounts."""
    model: str
    """Forecast model, chosen by its error at earlier times."""
    capacity: NonNegativeFloat | None
    """What the pool's nodes have; null where unknown."""
    measured: NonNegativeInt
    """Hours that were measured."""
    past: tuple[SeriesPoint, ...]
    """Measured hours, thinned for drawing."""
    future: tuple[SeriesPoint, ...]
    """Forecast hours, thinned for drawing."""
    peak_p50: FiniteFloat
    """Median of the largest hour within the horizon."""
    peak_p95: FiniteFloat
    """What the largest hour within the horizon exceeds with 5 % probability."""
    full: DaysUntilFull
    """Days until full."""


class ForecastReport(_Part):
    """Forecast demand of a cluster."""

    cluster: str
    """Cluster."""
    at_us: NonNegativeInt
    """End of the newest measurements, microseconds since 1970."""
    created_us: NonNegativeInt
    """When the forecast was made, microseconds since 1970."""
    horizon_h: NonNegativeInt
    """Hours that are forecast."""
    inputs: tuple[str, ...]
    """Growth and events that the planner gave, each as a sentence with who said so."""
    series: tuple[PoolForecast, ...]
    """By pool and resource."""


class PlannedOrder(_Part):
    """Machines to order."""

    sku: str
    """What to order."""
    count: NonNegativeInt
    """How many."""
    rack: str
    """Where they go."""
    order_by: str
    """Last day to order, as 2026-12-31."""
    deliver_by: str
    """Day from which they serve."""
    cost: NonNegativeFloat
    """Price of all of them, paid once, in the unit of the price list."""


class PeriodShortage(_Part):
    """A month of the plan."""

    starts: str
    """Its first day."""
    pods: NonNegativeInt
    """Pods at once, of the path with most."""
    short: NonNegativeInt
    """Pods without a place in the worst case, although the plan is carried out."""
    incurable: NonNegativeInt
    """Of these, pods that no order can place, as nothing is delivered before."""


class CostChange(_Part):
    """Cost of the plan if something were different."""

    change: str
    """What is different, in words."""
    cost: NonNegativeFloat
    """Cost of the plan then."""
    short: NonNegativeInt
    """Pods without a place then."""


class PublishedPurchase(_Part):
    """A purchase plan."""

    cluster: str
    """Cluster."""
    created_us: NonNegativeInt
    """When the plan was made, microseconds since 1970."""
    unit: str
    """Unit of all costs; empty where none was given."""
    risk: NonNegativeFloat = Field(le=1)
    """Probability of a shortage that was asked for."""
    risk_stated: NonNegativeFloat | None = Field(le=1)
    """Probability of a shortage under the plan; null where demand has a single path."""
    orders: tuple[PlannedOrder, ...]
    """Orders by date."""
    cost: NonNegativeFloat
    """Price over life of all ordered machines, for each month that they serve."""
    outlay: NonNegativeFloat
    """Price of all ordered machines, paid once."""
    bound: NonNegativeFloat
    """Cost that no plan for the same pods can be below; 0 where none was found."""
    packed: bool
    """Whether every pod was given a place on a machine, and the places were checked."""
    unplaced: NonNegativeInt
    """Pods without a place in the worst month."""
    periods: tuple[PeriodShortage, ...]
    """Shortage by period."""
    binding: tuple[str, ...]
    """What limits the plan, in sentences with what one unit more is worth."""
    changes: tuple[CostChange, ...]
    """The next best plan, and the sensitivity of the cost."""


class ChangeOutcome(_Part):
    """What runs short, and what a plan costs, after a change."""

    change: str
    """The change, as `grow:30`."""
    short: NonNegativeInt
    """Pods without a place in the worst month if nothing is ordered."""
    first_short: str | None
    """First day of the first month in which pods are short then; null where none are."""
    cost: NonNegativeFloat | None
    """Cost of the plan by price over life; null where none was found in time."""
    outlay: NonNegativeFloat
    """Price of the machines that the plan orders, paid once."""
    machines: dict[str, NonNegativeInt]
    """Machines that the plan orders, by SKU."""
    left: NonNegativeInt
    """Pods that the plan leaves without a place in the worst month."""


class PublishedWhatIf(_Part):
    """Changes, each alone, after none."""

    cluster: str
    """Cluster."""
    created_us: NonNegativeInt
    """When they were looked at, microseconds since 1970."""
    unit: str
    """Unit of all costs; empty where none was given."""
    from_month: str
    """First day of the first month that was looked at."""
    to_month: str
    """First day of the last month."""
    paths: NonNegativeInt
    """Paths of demand that were looked at; the hardest of each month counts."""
    changes: tuple[ChangeOutcome, ...]
    """No change first."""


Report = TypeVar("Report", ForecastReport, PublishedPurchase, PublishedWhatIf)
FILES: dict[type[BaseModel], tuple[str, str]] = {
    ForecastReport: ("demand-forecast.json", "cohabit capacity forecast --publish"),
    PublishedPurchase: ("purchase-plan.json", "cohabit capacity plan --publish"),
    PublishedWhatIf: ("what-if.json", "cohabit capacity what-if --publish"),
}
"""File of each report, and the command that writes it."""


class NewestCapacity(Generic[Report]):
    """The newest report of a folder; any number of threads may ask.

    Args:
        folder: where it is published.
        kind: which report.
    """

    def __init__(self, folder: Path, kind: type[Report]) -> None:
        self.command = FILES[kind][1]
        decode: Callable[[], Report | None] = partial(read_capacity_report, folder, kind)
        self._file: NewestFile[Report] = NewestFile(folder / FILES[kind][0], decode)

    def report(self) -> Report | None:
        """The newest one; None before the first.

        Raises:
            Unavailable: the file cannot be read.
        """
        return self._file.newest()

    def published(self) -> Report:
        """The newest one.

        Raises:
            Unavailable: there is none yet, or the file cannot be read.
        """
        found = self.report()
        if found is None:
            raise Unavailable(f"nothing was published yet: run `{self.command}`")
        return found


def write_capacity_report(folder: Path, report: ForecastReport | PublishedPurchase | PublishedWhatIf) -> Path:
    """Put a report in the place of the one that was there; readers see the one or the other.

    Raises:
        AdvisorError: it would be larger than is read.
    """
    path = folder / FILES[type(report)][0]
    written = report.model_dump_json().encode()
    if len(written) > MAX_BYTES:
        raise AdvisorError(
            f"the report takes {len(written)} bytes (limit {MAX_BYTES}): forecast fewer series or periods"
        )
    folder.mkdir(parents=True, exist_ok=True)
    replace_atomically(path, written)
    return path


def read_capacity_report(folder: Path, kind: type[Report]) -> Report | None:
    """The newest report; None before the first one.

    Raises:
        Unavailable: the file is broken, too large, or of another Cohabit.
    """
    name, command = FILES[kind]
    path = folder / name
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise Unavailable(_unreadable(path, command, f"it exceeds {MAX_BYTES} bytes"))
        return kind.model_validate_json(content)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unavailable(_unreadable(path, command, error.strerror or str(error))) from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(one) for one in first["loc"])
        raise Unavailable(_unreadable(path, command, f"{where}: {first['msg']}")) from error


def _unreadable(path: Path, command: str, reason: str) -> str:
    return (
        f"{path} cannot be read ({reason}): write it again with `{command}`, in the same version of Cohabit as the "
        "server"
    )
