"""Charts: points, lines and bars as small SVG files that read well on light and on dark pages. Kernel."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite, log10
from typing import Literal
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 640, 380
LEFT, RIGHT, TOP, BOTTOM = 64, 620, 56, 326
"""The plot's edges in pixels."""
COLOURS = 4
MAX_NAMES = 4
"""More names than these stand in two rows."""
STYLE = """
text{font:12px Helvetica,Arial,sans-serif;fill:#1f2328} .t{font-size:15px;font-weight:bold} .m{text-anchor:middle}
.e{text-anchor:end} .p{fill:#fff} .g{stroke:#d8dee4;stroke-width:1} .a{stroke:#57606a;stroke-width:1}
.l{fill:none;stroke-width:2} .d{stroke-dasharray:5 4} .w{stroke-width:1.3}
.s0{stroke:#0969da}.f0{fill:#0969da} .s1{stroke:#bc4c00}.f1{fill:#bc4c00}
.s2{stroke:#1a7f37}.f2{fill:#1a7f37} .s3{stroke:#6e7781}.f3{fill:#6e7781}
@media (prefers-color-scheme:dark){text{fill:#e6edf3} .p{fill:#0d1117} .g{stroke:#30363d} .a{stroke:#8b949e}
.s0{stroke:#58a6ff}.f0{fill:#58a6ff} .s1{stroke:#f0883e}.f1{fill:#f0883e}
.s2{stroke:#3fb950}.f2{fill:#3fb950} .s3{stroke:#8b949e}.f3{fill:#8b949e}}
"""


@dataclass(frozen=True, slots=True)
class Series:
    """What is drawn in one colour.

    Args:
        name: in the legend.
        x: positions.
        y: values; what is not finite is left out.
        spans: low and high of an interval around each value; none where empty.
        kind: `dashed` is a line of reference.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    spans: Sequence[tuple[float, float]] = ()
    kind: Literal["points", "line", "bars", "dashed"] = "points"


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis: its label with the unit, its ends where they are fixed, and names in place of numbers."""

    label: str
    low: float | None = None
    high: float | None = None
    names: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class _Scale:
    """Values to pixels."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


def chart(title: str, x: Axis, y: Axis, series: Sequence[Series]) -> str:
    """An SVG document.

    Args:
        title: above the plot.
        x: the axis below.
        y: the axis at the left; starts at 0 where bars are drawn.
        series: at most a few, drawn in order.

    Returns:
        The text of the file. A series without finite values is named in the legend and not drawn.
    """
    points = [(a, b) for one in series for a, b in zip(one.x, one.y, strict=True) if isfinite(b)]
    heights = [b for _, b in points] + [end for one in series for span in one.spans for end in span if isfinite(end)]
    grounded = [0.0] if any(one.kind == "bars" for one in series) else []
    named = _Scale(-0.5, len(x.names) - 0.5, LEFT, RIGHT)
    across = named if x.names else _scale(x, [a for a, _ in points], LEFT, RIGHT)
    upward = _scale(y, heights + grounded, BOTTOM, TOP)
    parts = [
        f'<rect class="p" width="{WIDTH}" height="{HEIGHT}"/>',
        f'<text class="t" x="16" y="22">{escape(title)}</text>',
    ]
    parts += [*_x_axis(x, across), *_y_axis(y, upward)]
    for number, one in enumerate(series):
        parts += _drawn(one, number % COLOURS, across, upward)
    parts += _legend(series)
    view = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    whole = "\n".join(parts)
    return f'<svg xmlns="http://www.w3.org/2000/svg" {view}>\n<style>{STYLE}</style>\n{whole}\n</svg>\n'


def ticks(low: float, high: float, most: int = 7) -> list[float]:
    """Round numbers within [low, high], low < high, at most `most` + 1: multiples of 1, 2, 2.5 or 5 in some decade."""
    rough = (high - low) / most
    power = 10.0 ** floor(log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * (1 - 1e-9))
    return [round(k * step, 12) for k in range(ceil(low / step - 1e-9), floor(high / step + 1e-9) + 1)]


def _scale(axis: Axis, values: Sequence[float], start: float, end: float) -> _Scale:
    """Room for all values and a little more where the axis does not say how much."""
    low = axis.low if axis.low is not None else min(values, default=0.0)
    high = axis.high if axis.high is not None else max(values, default=1.0)
    if low >= high:
        low, high = low - 0.5, low + 0.5
    margin = 0.05 * (high - low)
    lowest = low if low in {axis.low, 0.0} else low - margin
    return _Scale(lowest, high if axis.high is not None else high + margin, start, end)


def _x_axis(axis: Axis, scale: _Scale) -> Iterator[str]:
    yield f'<line class="a" x1="{LEFT}" y1="{BOTTOM}" x2="{RIGHT}" y2="{BOTTOM}"/>'
    yield f'<text class="m" x="{(LEFT + RIGHT) / 2:.0f}" y="{HEIGHT - 10}">{escape(axis.label)}</text>'
    named = [(float(at), name) for at, name in enumerate(axis.names)]
    crowded = len(named) > MAX_NAMES
    for number, (at, name) in enumerate(named or [(at, f"{at:g}") for at in ticks(scale.low, scale.high)]):
        row = BOTTOM + (31 if crowded and number % 2 else 17)
        yield f'<text class="m" x="{scale(at):.1f}" y="{row}">{escape(name)}</text>'


def _y_axis(axis: Axis, scale: _Scale) -> Iterator[str]:
    yield f'<text x="16" y="42">{escape(axis.label)}</text>'
    for at in ticks(scale.low, scale.high):
        yield f'<line class="g" x1="{LEFT}" y1="{scale(at):.1f}" x2="{RIGHT}" y2="{scale(at):.1f}"/>'
        yield f'<text class="e" x="{LEFT - 6}" y="{scale(at) + 4:.1f}">{at:g}</text>'


def _drawn(one: Series, colour: int, across: _Scale, upward: _Scale) -> Iterator[str]:
    known = [(across(a), upward(b)) for a, b in zip(one.x, one.y, strict=True) if isfinite(b)]
    if one.kind in {"line", "dashed"}:
        dashes = " d" if one.kind == "dashed" else ""
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in known)
        yield f'<polyline class="l s{colour}{dashes}" points="{path}"/>'
    elif one.kind == "bars":
        width = 0.7 * (across(1) - across(0))
        for a, b in known:
            top, bottom = min(b, upward(0)), max(b, upward(0))
            corner = f'x="{a - width / 2:.1f}" y="{top:.1f}"'
            yield f'<rect class="f{colour}" {corner} width="{width:.1f}" height="{bottom - top:.1f}"/>'
    if one.kind in {"points", "line"}:
        yield from (f'<circle class="f{colour}" cx="{a:.1f}" cy="{b:.1f}" r="3"/>' for a, b in known)
    whisker = "a" if one.kind == "bars" else f"w s{colour}"
    for a, (low, high) in zip(one.x, one.spans, strict=False):
        if isfinite(low) and isfinite(high):
            ends = f'y1="{upward(low):.1f}" y2="{upward(high):.1f}"'
            yield f'<line class="{whisker}" x1="{across(a):.1f}" x2="{across(a):.1f}" {ends}/>'


def _legend(series: Sequence[Series]) -> Iterator[str]:
    at = RIGHT
    for number, one in reversed(list(enumerate(series))):
        at -= 7 * len(one.name) + 30
        yield f'<rect class="f{number % COLOURS}" x="{at}" y="33" width="10" height="10"/>'
        yield f'<text x="{at + 15}" y="42">{escape(one.name)}</text>'
