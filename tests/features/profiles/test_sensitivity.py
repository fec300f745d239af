"""Sensitivity: who suffers most from what is told under laws of any form, and platforms learn from each other."""

import numpy as np
import pyarrow as pa
import pytest

from features.columnar.arrow_columns import Floats, table
from features.profiles.sensitivity import BORROWED, MIN_WINDOWS, TYPICAL, sensitivities
from features.schema.catalog import NAMES, PRESSURES
from features.schema.tables import LABELS
from ingest.simulator.law import HIDDEN, PLATFORMS, capacities_of, draw_apps
from ingest.simulator.laws import LAWS
from tests.features.rows import at

APPS = 12
CPU, LLC = NAMES.index("cpu"), NAMES.index("llc")


def labels(pressure: Floats, slowdown: Floats) -> pa.Table:
    """Labels of n windows under (n, k) pressures of the first k resources; the others were never measured."""
    columns: dict[str, object] = {name: np.full(len(slowdown), np.nan) for name in PRESSURES}
    columns |= {f"pressure_{name}": pressure[:, i] for i, name in enumerate(NAMES[: pressure.shape[1]])}
    texts = {f.name: ["x"] * len(slowdown) for f in LABELS.schema if pa.types.is_string(f.type)}
    times = {f.name: [at(0)] * len(slowdown) for f in LABELS.schema if pa.types.is_timestamp(f.type)}
    weight = {"weight": np.ones(len(slowdown)), "log_slowdown": np.log(slowdown)}
    columns["cpus"] = np.full(len(slowdown), np.nan)
    return table({**texts, **times, **weight, **columns}, LABELS.schema)


@pytest.mark.parametrize("law", LAWS)
def test_who_suffers_most_from_which_resource_is_told_under_a_law_of_any_form(law: str) -> None:
    rng = np.random.default_rng(7)
    apps = draw_apps(APPS, rng)
    hidden, capacity = LAWS[law](apps), capacities_of(PLATFORMS)[0]
    order = [HIDDEN.index(name) for name in ("cpu", "llc", "memory_bandwidth")]
    found = []
    for victim in range(APPS):
        neighbours = rng.poisson(rng.uniform(0, 20 / APPS, (400, 1)), (400, APPS)) * rng.uniform(
            0.25, 0.95, (400, APPS)
        )
        truth = hidden.slowdown(np.full(400, victim), neighbours, np.full(400, 0.6), np.zeros(400, np.int64))
        pressure = (neighbours @ apps.demand / capacity)[:, order]
        found.append(sensitivities([labels(pressure, truth * rng.lognormal(0, 0.02, 400))])[0, :3])
    told = np.corrcoef(np.ravel(found), apps.sensitivity[:, order].ravel())[0, 1]

    assert told > 0.7


def test_a_sensitivity_is_the_harm_at_half_a_node_over_it() -> None:
    pressure = np.random.default_rng(0).uniform(0, 1, (400, 1))

    found = sensitivities([labels(pressure, 1 + 0.4 * pressure[:, 0])])

    assert found[0, CPU] == pytest.approx(0.4, rel=0.03)
    assert np.isnan(np.delete(found[0], CPU)).all()


def test_harm_that_levels_off_is_read_off_where_nodes_usually_are() -> None:
    pressure = np.random.default_rng(1).uniform(0, 2, (400, 1))
    truth = 1 + 0.6 * -np.expm1(-pressure[:, 0] / 0.3)

    found = sensitivities([labels(pressure, truth)])[0, CPU]

    assert found == pytest.approx(0.6 * -np.expm1(-TYPICAL / 0.3) / TYPICAL, rel=0.1)


def test_a_platform_with_few_windows_says_what_all_platforms_say() -> None:
    rng = np.random.default_rng(2)
    many, few = rng.uniform(0, 1, (600, 1)), rng.uniform(0, 1, (MIN_WINDOWS - 1, 1))

    found = sensitivities([labels(many, 1 + 0.5 * many[:, 0]), labels(few, 1 + 0.5 * few[:, 0])])

    assert found[1, CPU] == pytest.approx(found[0, CPU], rel=0.02)


def test_a_platform_with_many_windows_mostly_speaks_for_itself() -> None:
    rng = np.random.default_rng(3)
    count = int(8 * BORROWED)
    calm, harmed = rng.uniform(0, 1, (2, count, 1))

    found = sensitivities([labels(calm, np.ones(count)), labels(harmed, 1 + harmed[:, 0])])[:, CPU]

    assert found[0] < 0.15
    assert found[1] > 0.85


def test_a_resource_that_one_platform_does_not_measure_is_told_by_the_others() -> None:
    rng = np.random.default_rng(4)
    both = rng.uniform(0, 1, (300, 2))
    only_cpu = both[:, :1]

    found = sensitivities([labels(both, 1 + both @ [0.3, 0.6]), labels(only_cpu, 1 + 0.3 * only_cpu[:, 0])])

    assert found[0, LLC] == pytest.approx(0.6, rel=0.1)
    assert found[1, LLC] == pytest.approx(found[0, LLC], rel=1e-12)


@pytest.mark.parametrize("count", [0, 1, MIN_WINDOWS - 1])
def test_too_few_windows_leave_it_unknown(count: int) -> None:
    pressure = np.full((count, 1), 0.5)

    assert np.isnan(sensitivities([labels(pressure, np.full(count, 1.3))])).all()


def test_who_was_never_pressed_has_not_shown_to_be_immune() -> None:
    assert np.isnan(sensitivities([labels(np.zeros((80, 2)), np.ones(80))])).all()


def test_the_order_of_windows_and_platforms_makes_no_difference() -> None:
    rng = np.random.default_rng(5)
    x, y = rng.uniform(0, 1, (2, 200, 2))
    first, second = labels(x, 1 + x @ [0.3, 0.6]), labels(y, 1 + y @ [0.2, 0.9])

    found = sensitivities([first, second])
    turned = sensitivities([second.take(rng.permutation(200)), first.take(rng.permutation(200))])

    np.testing.assert_allclose(found, turned[::-1], rtol=1e-9, equal_nan=True)
