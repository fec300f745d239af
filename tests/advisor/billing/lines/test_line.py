"""Lines: their JSON is pinned, and their names are the same whenever they are worked out again."""

import json
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from advisor.billing.lines.line import (
    KINDS,
    Billed,
    Fact,
    Line,
    Stamp,
    Subject,
    line_from,
    line_id,
    line_json,
    line_of,
)
from advisor.errors import AdvisorError
from tests.advisor.billing.billed import STAMP

GOLDEN = Path(__file__).parents[3] / "golden" / "pricing-lines.jsonl"
DECISION = (
    "ledgers and exports hold lines in this form: changing it needs a decision record in docs/decisions/, another "
    "FORMAT, and a new tests/golden/pricing-lines.jsonl"
)


def lines() -> list[Line]:
    """A line of each kind, one with all that a line can say."""
    subject = Subject("search", "uid-1", "node-1", "cpu")
    charge = replace(
        line_of(STAMP, subject, "base", 1_234_567, (Fact("tier", "prod"), Fact("low_ratio", 1.25))),
        billed=Billed(90_000_000, "core", 823_044.6666666666),
        memo_micros=7,
    )
    monthly = replace(STAMP, hour_us=None, model=None)
    return [charge, *(line_of(monthly, Subject("ads"), kind, -number) for number, kind in enumerate(KINDS))]


def test_golden_lines() -> None:
    assert [line_json(line).decode() for line in lines()] == GOLDEN.read_text().splitlines(), DECISION


def test_a_line_is_read_as_it_was_written() -> None:
    assert [line_from(line_json(line)) for line in lines()] == lines()


@pytest.mark.parametrize("content", [b"{}", b"not json", b"\xff", b'{"x":' + b"[" * 5000])
def test_what_is_no_line_is_refused(content: bytes) -> None:
    with pytest.raises(AdvisorError, match="upgrade Cohabit"):
        line_from(content)


def test_a_line_of_a_newer_format_is_refused() -> None:
    with pytest.raises(AdvisorError, match="its format is 2"):
        line_from(msgspec.json.encode(replace(lines()[0], format=2)))


def test_a_name_tells_lines_apart_by_all_that_they_are_about() -> None:
    subject = Subject("search", "uid-1", "node-1", "cpu")
    others = [
        line_id(stamp, subject, "base")
        for stamp in (
            replace(STAMP, period="2026-12"),
            replace(STAMP, pool="b"),
            replace(STAMP, hour_us=0),
            replace(STAMP, hour_us=None),
        )
    ]
    others += [
        line_id(STAMP, replace(subject, **{name: value}), "base")
        for name in ("account", "container", "node", "resource")
        for value in ("x", "")
    ]
    others += [line_id(STAMP, Subject("uid-1", "search"), "base"), line_id(STAMP, subject, "scarcity")]

    assert len({line_id(STAMP, subject, "base"), *others}) == len(others) + 1


def test_a_name_stays_when_prices_policy_or_model_are_others() -> None:
    """So that working a month out again shows what changed, line by line."""
    subject = Subject("search", "uid-1")
    other = Stamp(STAMP.period, STAMP.pool, STAMP.hour_us, "another book", "another policy", "another model")

    assert line_id(STAMP, subject, "base") == line_id(other, subject, "base")


if __name__ == "__main__":
    GOLDEN.write_text("".join(f"{line_json(line).decode()}\n" for line in lines()))
    print(json.dumps({"written": len(lines())}))  # noqa: T201
