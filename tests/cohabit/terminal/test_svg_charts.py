"""Charts: well-formed files with labels, everything inside the plot, and readable in light and dark."""

from collections.abc import Sequence
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cohabit.terminal.svg_charts import BOTTOM, LEFT, RIGHT, TOP, Axis, Series, chart, ticks

SVG = "{http://www.w3.org/2000/svg}"
X, Y = Axis("pressure, shares of the node"), Axis("MAE of log slowdown", low=0.0)
values = st.floats(-1e6, 1e6).map(lambda v: round(v, 3))


def drawn(series: Sequence[Series], x: Axis = X, y: Axis = Y) -> ElementTree.Element:
    return ElementTree.fromstring(chart("Error & more <1>", x, y, series))  # noqa: S314


def texts(svg: ElementTree.Element) -> list[str]:
    return [text.text or "" for text in svg.iter(f"{SVG}text")]


def test_title_labels_and_legend_are_there_whatever_they_contain() -> None:
    found = texts(drawn([Series("ours < theirs", [0, 1], [0.1, 0.2])]))

    assert {"Error & more <1>", X.label, Y.label, "ours < theirs"} <= set(found)


def test_light_and_dark_pages_have_colours_of_their_own() -> None:
    style = drawn([]).findtext(f"{SVG}style") or ""

    assert "prefers-color-scheme:dark" in style
    assert style.count(".f0{") == style.count("text{") == style.count(".p{") == 2


@given(st.lists(st.tuples(values, values), min_size=1, max_size=20))
def test_points_lie_inside_the_plot_and_keep_their_order(points: list[tuple[float, float]]) -> None:
    x, y = zip(*points, strict=True)

    circles = [*drawn([Series("s", x, y)], y=Axis("y")).iter(f"{SVG}circle")]

    at = [(float(c.attrib["cx"]), float(c.attrib["cy"])) for c in circles]
    assert len(at) == len(points)
    assert all(LEFT <= a <= RIGHT and TOP <= b <= BOTTOM for a, b in at)
    assert [a for a, _ in sorted(at)] == sorted(a for a, _ in at)
    assert all((x[i] - x[j]) * (at[i][0] - at[j][0]) >= 0 for i in range(len(x)) for j in range(i))


def test_bars_stand_on_zero() -> None:
    bars = drawn([Series("b", [0, 1], [2.0, 4.0], [(1.0, 3.0), (4.0, 4.0)], kind="bars")], Axis("who", names="ab"))
    first, second = [r for r in bars.iter(f"{SVG}rect") if "width" in r.attrib and float(r.attrib["height"]) > 20][1:3]

    assert float(second.attrib["height"]) == pytest.approx(2 * float(first.attrib["height"]), abs=0.2)
    assert float(first.attrib["y"]) + float(first.attrib["height"]) == pytest.approx(BOTTOM, abs=0.2)
    assert {"a", "b"} <= set(texts(bars))


def test_what_is_not_finite_is_left_out() -> None:
    svg = drawn([Series("s", [0, 1, 2], [1.0, float("nan"), 2.0], [(0.5, 1.5), (float("nan"), 1.0), (1.0, 3.0)])])

    assert len([*svg.iter(f"{SVG}circle")]) == 2
    assert len([line for line in svg.iter(f"{SVG}line") if "w" in line.attrib["class"].split()]) == 2


def test_a_reference_is_a_dashed_line() -> None:
    (line,) = drawn([Series("edge", [1, 1], [0, 2], kind="dashed")]).iter(f"{SVG}polyline")

    assert "d" in line.attrib["class"].split()


def test_many_names_stand_in_two_rows() -> None:
    names = [f"predictor {k}" for k in range(6)]
    svg = drawn([Series("b", range(6), [1.0] * 6, kind="bars")], Axis("who", names=names))

    rows = {text.text: text.attrib["y"] for text in svg.iter(f"{SVG}text") if text.text in names}
    assert len(set(rows.values())) == 2
    assert rows["predictor 0"] == rows["predictor 2"] != rows["predictor 1"]


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_ticks_are_few_round_and_inside(low: float, width: float) -> None:
    found = ticks(low, low + width)

    assert 1 <= len(found) <= 8
    slack = 1e-6 * (abs(low) + width)
    assert all(low - slack <= at <= low + width + slack for at in found)
    assert found == sorted(set(found))
