"""Fan chart: measured demand, its forecast with a band, and capacity, as the points of a drawing."""

from collections.abc import Iterable
from dataclasses import dataclass

from advisor.capacity.capacity_reports import PoolForecast, SeriesPoint

WIDTH, HEIGHT, EDGE = 640.0, 160.0, 4.0


@dataclass(frozen=True, slots=True)
class FanChart:
    """A series and its drawing; coordinates within `WIDTH` by `HEIGHT`.

    Args:
        series: what is drawn.
        past: points of a line.
        middle: points of a line, joined to the past.
        band: points of an area, from the low to the high forecast.
        capacity: height of the line of capacity; None where it is unknown.
        top: amount at the upper edge.
    """

    series: PoolForecast
    past: str
    middle: str
    band: str
    capacity: float | None
    top: float


def fan_chart(series: PoolForecast) -> FanChart:
    """The drawing of a series; amounts begin at 0.

    Args:
        series: with at least one point, past or future.
    """
    points = [*series.past, *series.future]
    first, last = points[0].at_us, max(points[-1].at_us, points[0].at_us + 1)
    top = max([series.capacity or 0.0, *(one.high for one in points)]) or 1.0

    def at(point: SeriesPoint, amount: float) -> str:
        x = EDGE + (point.at_us - first) / (last - first) * (WIDTH - 2 * EDGE)
        return f"{x:.1f},{_height(amount, top):.1f}"

    def line(found: Iterable[SeriesPoint]) -> str:
        return " ".join(at(one, one.middle) for one in found)

    band = [at(one, one.high) for one in series.future] + [at(one, one.low) for one in reversed(series.future)]
    return FanChart(
        series,
        line(series.past),
        line([*series.past[-1:], *series.future]),
        " ".join(band),
        None if series.capacity is None else _height(series.capacity, top),
        top,
    )


def _height(amount: float, top: float) -> float:
    return HEIGHT - EDGE - max(amount, 0.0) / top * (HEIGHT - 2 * EDGE)
