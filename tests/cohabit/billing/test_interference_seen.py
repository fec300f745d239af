"""What a bill says of how much could be seen: container time with labels, by account, where rebates are on."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa

from advisor.billing.ledger.drafts import Seen, draft_json, seen_sentence
from advisor.billing.pricing.price_book import PriceBook
from cohabit.billing.draft import draft_of
from features.schema.tables import LABELS
from ingest.lake.tables import Lake
from tests.advisor.billing.metered_month import END, HOURS, lake_of, pool_rows, price_book, rows
from tests.advisor.billing.months_drawn import PERIOD


def labelled(lake: Lake, container: str, windows: int, kind: str) -> None:
    """Put labels of the first metered windows into a lake."""
    ends = [HOURS[0] + (number + 1) * timedelta(minutes=5) for number in range(windows)]
    shared = {"cluster": "c", "node": "n1", "container": container, "qos": "LS", "kind": kind, "log_slowdown": 0.1}
    found = [shared | {"window_start": e - timedelta(minutes=5), "window_end": e, "arrived_at": e} for e in ends]
    rows_ = [{name: one.get(name) for name in LABELS.schema.names} for one in found]
    lake.replace("labels", HOURS[0], END, "test", pa.Table.from_pylist(rows_, LABELS.schema))


def seen_in(lake: Lake, folder: Path, of: PriceBook) -> tuple[Seen, ...] | None:
    return draft_of(lake, "c", PERIOD, books=[of], folder=folder, progress=lambda *_: None).seen


def test_a_draft_with_rebates_says_for_what_interference_could_be_seen(tmp_path: Path) -> None:
    lake, book = lake_of(tmp_path / "lake", rows(), pool_rows()), price_book()
    labelled(lake, "web-1", 24, "latency")

    seen = seen_in(lake, tmp_path / "l", book)

    windows = len(HOURS) * 12
    assert seen == (Seen("shop", 2 * windows, 24), Seen("unattributed", windows, 0))
    assert "seen in 2% of the time" in seen_sentence(seen)
    assert seen_in(lake, tmp_path / "l", replace(book, policy=replace(book.policy, theta_ppm=0))) is None


def test_a_label_made_of_waiting_alone_is_no_ground_to_give_anything_back(tmp_path: Path) -> None:
    lake = lake_of(tmp_path / "lake", rows(), pool_rows())
    labelled(lake, "web-1", 24, "waiting")

    seen = seen_in(lake, tmp_path / "l", price_book())

    assert seen is not None
    assert sum(one.labelled for one in seen) == 0


def test_a_draft_of_before_keeps_its_name(tmp_path: Path) -> None:
    lake = lake_of(tmp_path / "lake", rows(), pool_rows())
    found = draft_of(lake, "c", PERIOD, books=[price_book()], folder=tmp_path / "l", progress=lambda *_: None)

    assert b'"seen"' in draft_json(found)
    assert b'"seen"' not in draft_json(replace(found, seen=None))


def test_a_share_is_rounded_down_and_nothing_is_no_share() -> None:
    assert "seen in 99% of" in seen_sentence([Seen("shop", 1000, 999)])
    assert "no latency-sensitive container ran" in seen_sentence([])
