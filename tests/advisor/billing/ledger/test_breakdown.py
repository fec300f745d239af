"""Drill-down: what a month comes to is what its teams, containers and lines come to, and each line has its name."""

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Engine
from typer.testing import CliRunner

from advisor.billing.ledger import store as ledger_store
from advisor.billing.ledger.breakdown import accounts_of, idle_by_cause, summed
from advisor.billing.ledger.breakdown_reader import Drilling
from advisor.billing.ledger.closing import Closing
from advisor.billing.ledger.drafts import Draft
from advisor.billing.lines.parquet import read_lines
from advisor.errors import Unavailable
from cohabit.billing.draft import corrections, draft_of
from cohabit.cli.main import app
from cohabit.config.logs import set_up_logs
from ingest.lake.tables import Lake
from tests.advisor.billing.metered_month import COST, HOURS, pool_rows, price_book, put, rows
from tests.advisor.billing.months_drawn import ANN, BOB, NOW_US, PERIOD


def drafted(lake: Lake, folder: Path) -> Draft:
    return draft_of(lake, "c", PERIOD, books=[price_book()], folder=folder, progress=lambda *_: None)


def test_accounts_containers_and_lines_come_to_the_same(lake: Lake, tmp_path: Path) -> None:
    batches, drilling = drafted(lake, tmp_path).batches, Drilling(tmp_path)

    accounts = accounts_of(batches)

    assert sum(one.owed_micros for one in accounts) == sum(COST + n for n in range(len(HOURS)))
    for one in accounts:
        containers = drilling.containers(batches, one.name).to_pylist()
        assert sum(row["amount_micros"] for row in containers) == one.owed_micros
        assert sum(row["lines"] for row in containers) == one.lines
    shop = {row["container"]: row["amount_micros"] for row in drilling.containers(batches, "shop").to_pylist()}
    assert list(shop) == ["web-2", "web-1"]  # the most first
    hours = drilling.hours(batches, "shop", "web-1").to_pylist()
    assert len(hours) == 2 * len(HOURS)
    assert sum(row["amount_micros"] for row in hours) == shop["web-1"]
    assert [row["hour"] for row in hours] == sorted(row["hour"] for row in hours)


def test_a_line_is_found_under_its_name(lake: Lake, tmp_path: Path) -> None:
    batches = drafted(lake, tmp_path).batches

    for row in Drilling(tmp_path).hours(batches, "shop", "web-2").to_pylist()[::9]:
        named, place = row.pop("line").split("-")
        [batch] = [one for one in batches if one.sha256.startswith(named)]
        line = read_lines(tmp_path / f"{batch.sha256}.parquet")[0].slice(int(place), 1).to_pylist()[0]
        assert row == {name: line[name] for name in row}


def test_what_is_idle_is_told_by_cause(lake: Lake, tmp_path: Path) -> None:
    accounts = accounts_of(drafted(lake, tmp_path).batches)

    idle = idle_by_cause(accounts)

    platform = next(one for one in accounts if one.name == "platform")
    assert sum(idle.values()) == platform.owed_micros > 0
    assert all(not cause.startswith("idle") for cause in idle)


def test_what_a_correction_takes_back_counts_with_its_sign(store: Engine, lake: Lake, tmp_path: Path) -> None:
    closing = Closing(store, "c", lambda: NOW_US)
    before = drafted(lake, tmp_path)
    closing.close(PERIOD, closing.begin(before, 0, ANN).digest, BOB)
    put(lake, rows()[: -2 * len(rows()) // len(HOURS)], pool_rows())
    now = drafted(lake, tmp_path)

    found = corrections(now.batches, ledger_store.standing(store, "c", PERIOD))

    drilling, name = Drilling(tmp_path), "shop"
    owed = {of: {a.name: a.owed_micros for a in accounts_of(of_batches)} for of, of_batches in
            (("before", before.batches), ("now", now.batches), ("difference", found))}  # fmt: skip
    assert owed["difference"][name] == owed["now"][name] - owed["before"][name] != 0
    lines = [row for piece in drilling.lines(found, name) for row in piece["amount_micros"].to_pylist()]
    assert sum(lines) == owed["difference"][name]
    assert sum(drilling.containers(found, name)["amount_micros"].to_pylist()) == owed["difference"][name]


def test_a_file_that_is_gone_or_changed_is_told(lake: Lake, tmp_path: Path) -> None:
    batches, drilling = drafted(lake, tmp_path).batches, Drilling(tmp_path)
    assert drilling.missing(batches) == 0
    path = tmp_path / f"{batches[0].sha256}.parquet"
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(Unavailable, match="SHA-256"):
        drilling.containers(batches, "shop")

    path.unlink()

    assert drilling.missing(batches) == 1
    with pytest.raises(Unavailable, match="it does not exist"):
        drilling.hours(batches, "shop", "web-1")
    path.mkdir()
    with pytest.raises(Unavailable, match=r"cannot be read \(Is a directory\)"):
        drilling.hours(batches, "shop", "web-1")


@pytest.mark.parametrize("kind", ["parquet", "inputs"])
def test_a_month_is_not_closed_without_its_files(
    store: Engine, store_address: str, lake: Lake, tmp_path: Path, kind: str
) -> None:
    closing, folder = Closing(store, "c", lambda: NOW_US), tmp_path / "lines"
    digest = closing.begin(drafted(lake, folder), 0, ANN).digest
    next(folder.glob(f"*.{kind}")).unlink()

    own = {
        "COHABIT_DATABASE": store_address,
        "COHABIT_BILLING__LEDGER_DIR": str(folder),
        "COHABIT_CLUSTER": "c",
        "COLUMNS": "300",
    }
    ran = CliRunner().invoke(app, ["bill", "close", "--month", PERIOD, "--confirm", digest[:12]], env=own)
    set_up_logs("DEBUG")

    assert (ran.exit_code, "of its" in ran.output, closing.one(PERIOD).state) == (1, True, "closing"), ran.output


PIECES = st.lists(
    st.tuples(
        st.sampled_from([-1, 1]),
        st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.integers(-9, 9)), max_size=6),
    ),
    max_size=6,
)


@given(signed=PIECES)
def test_sums_are_those_of_a_plain_loop(signed: list[tuple[int, list[tuple[str | None, int]]]]) -> None:
    amounts, lines = Counter[str | None](), Counter[str | None]()
    for sign, piece in signed:
        for container, amount in piece:
            amounts[container] += sign * amount
            lines[container] += 1

    tables = [(sign, pa.table({"container": pa.array([c for c, _ in piece], pa.string()),
                               "amount_micros": pa.array([a for _, a in piece], pa.int64())}))
              for sign, piece in signed]  # fmt: skip
    found = summed(tables, ["container"]).to_pylist()

    assert {row["container"]: (row["amount_micros"], row["lines"]) for row in found} == {
        container: (amounts[container], lines[container]) for container in lines
    }
    assert [row["amount_micros"] for row in found] == sorted((row["amount_micros"] for row in found), reverse=True)
