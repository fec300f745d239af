"""Soak: how surely memory grows is told from samples that hang together."""

import csv
import os
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cohabit.config.settings import read_settings
from e2e.soak.__main__ import main, scheduled
from e2e.soak.asking import Asked
from e2e.soak.errors import SoakFailed
from e2e.soak.judging import JUDGED, grew, growth
from e2e.soak.landing import Behind, steady
from e2e.soak.line import Line
from e2e.soak.memory import COLUMNS, Held, Samples, held_in, least, slope_of
from tests.deploy.checks import refusal

SECONDS = np.arange(0.0, 3600.0, 5.0)


def wandering(seed: int) -> np.ndarray:
    """Memory that comes and goes, and stays."""
    rng = np.random.default_rng(seed)
    steps = rng.normal(size=len(SECONDS))
    held = np.zeros(len(SECONDS))
    for i in range(1, len(held)):
        held[i] = 0.95 * held[i - 1] + steps[i]
    return 1e8 + 2e5 * held


@given(st.floats(0.5, 20.0), st.integers(0, 1000))
def test_growth_is_found_within_its_interval(percent: float, seed: int) -> None:
    held = wandering(seed)
    held = held + 1e6 * percent * (SECONDS - SECONDS.mean()) / 3600
    found = slope_of(SECONDS, held, np.random.default_rng(0))
    assert found.low <= found.value <= found.high
    assert abs(found.value - percent) < 3.0


def test_what_stays_is_told_not_to_grow_most_of_the_time() -> None:
    found = [slope_of(SECONDS, wandering(seed), np.random.default_rng(0)) for seed in range(40)]
    assert np.mean([one.low <= 0 <= one.high for one in found]) >= 0.75


def test_constant_memory_has_no_slope() -> None:
    found = slope_of(SECONDS, np.full(len(SECONDS), 5e7), np.random.default_rng(0))
    assert (found.value, found.low, found.high) == pytest.approx((0.0, 0.0, 0.0), abs=1e-9)


def test_what_each_process_holds_is_kept_and_written_down_and_one_that_is_gone_holds_nothing() -> None:
    samples = Samples(told := StringIO())
    samples.take(0.5, {"here": os.getpid(), "gone": 2**22 + 1})
    samples.take(1.0, {"here": os.getpid()})
    _, *rows = csv.reader(told.getvalue().splitlines())

    held = samples.held()
    assert {name: one.at_s.tolist() for name, one in held.items()} == {"here": [0.5, 1.0], "gone": [0.5]}
    assert held["gone"].bytes.tolist() == [0.0]
    assert [[name, float(at)] for name, at, *_ in rows] == [["here", 0.5], ["gone", 0.5], ["here", 1.0]]
    assert [float(one) for name, _, one, _ in rows if name == "here"] == held["here"].bytes.tolist()
    assert all(1e6 < int(of_files) < int(held) for name, _, held, of_files in rows if name == "here")


def test_the_slowest_hundredth_is_of_its_own_stretch_of_time() -> None:
    asked = Asked(at_s=[1.0, 2.0, 11.0], took_s=[0.001, 0.001, 0.5])
    assert asked.p99_ms(0, 10) == pytest.approx(1.0)
    assert asked.p99_ms(10, 20) == pytest.approx(500.0)
    assert np.isnan(asked.p99_ms(20, 30))


@pytest.mark.parametrize(("each_s", "keeps_up"), [(0.0, True), (0.1, False)])
def test_ingestion_keeps_up_unless_more_and_more_messages_wait(each_s: float, *, keeps_up: bool) -> None:
    at_s = np.arange(0.0, 3600.0, 30.0)
    behind = Behind(Path("none"), list(at_s), list(80 + 20 * np.sin(at_s) + each_s * at_s))

    assert steady(behind.thirds(600.0, 3600.0)) is keeps_up


def test_where_nobody_looked_ingestion_is_not_said_to_keep_up() -> None:
    assert not steady(Behind(Path("none")).thirds(0.0, 3600.0))


def test_what_is_taken_for_a_piece_of_work_and_given_back_is_no_growth_and_a_leak_beneath_it_is() -> None:
    work = np.where(np.arange(len(SECONDS)) % 12 < 8, 2e7 * (1 + SECONDS / SECONDS[-1]), 0.0)
    leaking = 1e8 * (1 + 0.05 * (SECONDS - SECONDS[0]) / 3600)

    still = slope_of(*least(SECONDS, 1e8 + work, 60.0), np.random.default_rng(0))
    grows = slope_of(*least(SECONDS, leaking + work, 60.0), np.random.default_rng(0))

    assert max(abs(still.value), abs(still.high)) < 1e-6
    assert grows.low > 4


@pytest.mark.parametrize(("last", "lows"), [(302.0, [4.0, 6.0]), (355.0, [4.0, 6.0, 8.0])])
def test_the_least_is_of_each_whole_piece_of_time_in_which_somebody_looked(last: float, lows: list[float]) -> None:
    """In what is left at the end nothing may have been given back: it would look like growth."""
    at, held = least(np.array([0.0, 30.0, 61.0, 300.0, last]), np.array([5.0, 4.0, 6.0, 9.0, 8.0]), 60.0)

    assert (at.tolist(), held.tolist()) == ([0.0, 61.0, 300.0][: len(lows)], lows)


def soaked(percent: float, **others: Held) -> dict[str, Held]:
    """Two hours of each process that is judged, of which serve grows by so much an hour, in steps of five seconds."""
    at_s = np.arange(0.0, 7200.0, 5.0)
    still = np.full(len(at_s), 1e8)
    return {
        **dict.fromkeys(JUDGED, Held(at_s, still)),
        "serve": Held(at_s, still * (1 + percent * at_s / 3.6e5)),
        **others,
    }


def write(path: Path, of: dict[str, Held]) -> Path:
    rows = [(at, name, held) for name, one in of.items() for at, held in zip(one.at_s, one.bytes, strict=True)]
    lines = [f"{name},{at:.2f},{held:.0f},0" for at, name, held in sorted(rows)]
    path.write_text("\n".join([",".join(COLUMNS), *lines, ""]))
    return path


@given(st.floats(-2.0, 2.0))
def test_who_grows_by_more_than_it_may_is_named_and_nobody_else(percent: float) -> None:
    found = growth(soaked(percent), 1800.0, 300.0)
    assert grew(found) == (["serve"] if found["serve"].slope.value > 0.2 else [])
    assert found["serve"].slope.value == pytest.approx(percent, rel=0.1, abs=1e-3)


def test_a_jvm_is_told_and_not_judged_and_who_came_late_or_ended_is_neither() -> None:
    at_s = np.arange(0.0, 7200.0, 5.0)
    growing = 1e8 * (1 + at_s / 3600)
    others = {
        "spark": Held(at_s, growing),
        "late": Held(at_s[900:], growing[900:]),
        "ended": Held(at_s, growing * (at_s < 3600)),
    }
    found = growth(soaked(0.0, **others), 1800.0, 300.0)
    assert (sorted(found), grew(found)) == ([*JUDGED, "spark"], [])


@pytest.mark.parametrize("without", JUDGED)
def test_memory_of_which_there_are_too_few_samples_is_not_told_to_stand_still(without: str) -> None:
    held = soaked(0.0)
    with pytest.raises(SoakFailed, match=f"{without}: not there for 3 rounds"):
        growth({name: one for name, one in held.items() if name != without}, 1800.0, 300.0)
    with pytest.raises(SoakFailed, match="soak for longer"):
        growth({name: Held(one.at_s[:500], one.bytes[:500]) for name, one in held.items()}, 1800.0, 300.0)


def test_samples_that_were_kept_are_judged_again(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """With a longer warming up where growth had ended by then."""
    held = soaked(0.0)
    at_s = held["serve"].at_s
    held["serve"] = Held(at_s, 1e8 + 1e6 * np.minimum(at_s, 3600.0) / 3600)
    file = write(tmp_path / "soak.csv", held)

    assert {name: one.bytes.tolist() for name, one in held_in(file).items()} == {
        name: np.round(one.bytes).tolist() for name, one in held.items()
    }
    assert main(["--judge", str(file), "--warm-up", "10"]) == 1
    assert "an hour: serve" in capfd.readouterr().out
    assert main(["--judge", str(file), "--warm-up", "60"]) == 0
    assert "an hour: none" in capfd.readouterr().out


def test_a_line_cut_short_as_the_soak_was_killed_is_left_out(tmp_path: Path) -> None:
    file = write(tmp_path / "soak.csv", soaked(0.0))
    before = held_in(file)
    with file.open("a") as more:
        more.write("serve,72")
    assert {name: len(one.at_s) for name, one in held_in(file).items()} == {
        name: len(one.at_s) for name, one in before.items()
    }


@pytest.mark.parametrize(
    "content",
    [
        None,
        b"",
        b"\xff\xfe\x00",
        b"process,seconds\na,1\n",
        b"a,b,c\n1,2,3\n",
        b"process,seconds,resident_bytes,file_bytes\nserve,soon,1,1\n",
    ],
)
def test_what_holds_no_samples_is_an_error_that_says_so(
    content: bytes | None, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "soak.csv"
    if content is not None:
        file.write_bytes(content)
    assert main(["--judge", str(file)]) == 1
    assert "no samples of a soak" in " ".join(capfd.readouterr().err.split())


@pytest.mark.parametrize("words", [["--every", "0"], ["--minutes", "nan"], ["--rate", "-1"]])
def test_what_cannot_be_soaked_by_is_refused(words: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(words)
    assert "takes a number above 0" in capfd.readouterr().err


def test_a_soak_uses_settings_and_commands_that_there_are(tmp_path: Path) -> None:
    settings = read_settings(Line(tmp_path, "localhost:9092", "sim").environment())

    assert settings.billing.ledger_dir == tmp_path / "ledger"
    assert [words for words in scheduled(tmp_path / "book.toml", "2026-11") if refusal([*words])] == []
