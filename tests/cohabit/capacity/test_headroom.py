"""Headroom of a real lake: the same twice, nothing where too little is known, and one command for all of it."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from advisor.capacity.offer_file import OfferReport, read_offers
from advisor.capacity.offers import NodeOffer
from cohabit.capacity.headroom import Wanted, headroom, newest_measured
from cohabit.cli.main import app
from cohabit.config.errors import CohabitError
from features.schema.tables import TABLES
from ingest.lake.tables import Lake
from tests.cohabit.capacity.cluster_days import CORES, Days, lake_of

HOUR = Wanted(horizons_s=(3600,), days=3)
FAULTY = Days(young="web-n1", silent="cart-n2", late_node="n7")


def offers(lake: Lake, wanted: Wanted = HOUR) -> OfferReport:
    return headroom(lake, "c", wanted, newest_measured(lake, "c"), scorer=None, now_us=0, progress=lambda *_: None)


def by_node(report: OfferReport, resource: str = "cpu") -> Mapping[str, NodeOffer]:
    return {one.node: one for one in report.offers if one.resource == resource}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("days")
    lake_of(folder / "lake", FAULTY)
    return folder


@pytest.fixture(scope="module")
def report(folder: Path) -> OfferReport:
    return offers(Lake.open(folder / "lake", TABLES))


def test_offers_of_a_process_that_starts_again_are_those_of_before_to_the_digit(
    folder: Path, report: OfferReport
) -> None:
    again = offers(Lake.open(folder / "lake", TABLES))

    assert again == report


def test_a_node_offers_what_residents_requests_and_reserve_leave_of_its_allocatable_cores(report: OfferReport) -> None:
    one = by_node(report)["n0"]

    assert one.peak is not None
    assert one.capacity == 15.0
    assert one.booked == 2.0
    assert 0.3 * CORES < one.peak < 0.75 * CORES
    assert one.offered == pytest.approx(15.0 * 0.95 - one.peak - 2.0)
    assert (one.bound_by, one.horizon_s, one.risk) == ("peak", 3600, 0.05)


@pytest.mark.parametrize(
    ("node", "bound_by", "reason"),
    [("n2", "stale", "1 of 3 residents (cart-n2) were not measured"), ("n7", "young", "described first 3.0 hours ago")],
)
def test_a_node_of_which_too_little_is_known_offers_nothing_and_says_why(
    report: OfferReport, node: str, bound_by: str, reason: str
) -> None:
    for resource in ("cpu", "memory"):
        one = by_node(report, resource)[node]
        assert (one.offered, one.total, one.peak, one.bound_by) == (0.0, 0.0, None, bound_by)
        assert reason in one.reason


def test_a_young_resident_counts_by_its_app_s_peak_and_its_past_is_not_forecast(report: OfferReport) -> None:
    young, old = by_node(report)["n1"], by_node(report)["n0"]

    assert young.peak is not None
    assert old.peak is not None
    assert young.peak < old.peak
    claimed = 15.0 * 0.95 - young.peak - 2.0 - young.offered
    assert 0.16 * CORES < claimed < 0.22 * CORES


@pytest.mark.parametrize("bound_by", ["peak", "unknown"])
def test_a_young_resident_of_an_unknown_app_counts_by_its_request_and_without_one_leaves_nothing(
    tmp_path: Path, bound_by: str
) -> None:
    days = Days(nodes=2, young="new", apps=("web", "new"), requests=bound_by == "peak")

    one = by_node(offers(lake_of(tmp_path / "lake", days)))["n1"]

    assert (one.offered > 0, one.bound_by) == (bound_by == "peak", bound_by)
    said = "new-n1 is young, its app was measured for too short, and it requests no cpu"
    assert bound_by == "peak" or said in one.reason


def test_best_effort_containers_without_a_request_are_booked_by_their_use(tmp_path: Path) -> None:
    one = by_node(offers(lake_of(tmp_path / "lake", Days(nodes=2, requests=False))))["n0"]

    assert 0.05 * CORES < one.booked < 0.25 * CORES


@pytest.mark.parametrize("resource", ["kubernetes.io/batch-cpu", "kubernetes.io/mid-cpu", "cohabit.io/revocable-cpu"])
def test_who_requests_what_we_offer_is_revocable_and_booked_by_it(tmp_path: Path, resource: str) -> None:
    days = Days(nodes=2, extended=((resource, "3000"),))

    report = offers(lake_of(tmp_path / "lake", days))

    one = by_node(report)["n0"]
    assert one.booked == 3.0
    assert one.total == pytest.approx(one.offered + 3.0)


def test_a_cluster_without_two_days_offers_nothing_and_says_how_long_it_was_measured(tmp_path: Path) -> None:
    report = offers(lake_of(tmp_path / "lake", Days(nodes=2, days=1.5)))

    assert {one.offered for one in report.offers} == {0.0}
    assert all("measured for 36.0 hours of the 49.0" in one.reason for one in report.offers)


@pytest.mark.parametrize(
    ("column", "value", "bound_by"),
    [
        ("taints", ["node.kubernetes.io/unschedulable:NoSchedule"], "closed"),
        ("cores", None, "unknown"),
        ("allocatable_cores", 0.0, "unknown"),
    ],
)
def test_a_node_that_takes_no_pods_or_is_not_described_offers_nothing(
    tmp_path: Path, column: str, value: object, bound_by: str
) -> None:
    one = by_node(offers(lake_of(tmp_path / "lake", Days(nodes=2, described=((column, value),)))))["n0"]

    assert (one.offered, one.total, one.bound_by) == (0.0, 0.0, bound_by)


def test_a_silent_best_effort_container_without_a_request_counts_by_its_app(tmp_path: Path) -> None:
    silent = by_node(offers(lake_of(tmp_path / "lake", Days(nodes=2, requests=False, silent="batch-n1"))))

    assert silent["n1"].booked == pytest.approx(0.2 * CORES, abs=0.04 * CORES)
    assert silent["n1"].offered < silent["n0"].offered + 0.5


@pytest.mark.parametrize("amount", ["4Gi", "2k", "nan", "-5", "much"])
def test_an_odd_quantity_of_one_pod_ends_nothing(tmp_path: Path, amount: str) -> None:
    days = Days(nodes=2, extended=(("kubernetes.io/batch-memory", amount),))

    assert by_node(offers(lake_of(tmp_path / "lake", days)))["n0"].booked > 0


def test_without_placements_a_node_that_fell_silent_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    report = by_node(offers(lake_of(tmp_path / "lake", Days(nodes=2, placed=False, silent="n1"))))

    assert (report["n1"].offered, report["n1"].bound_by) == (0.0, "unknown")
    assert "no placements say who is on the node" in report["n1"].reason


@pytest.mark.parametrize("horizons", [(299,), (), (86_700,), (3700,)])
def test_horizons_that_are_not_whole_bins_are_refused(horizons: tuple[int, ...]) -> None:
    with pytest.raises(CohabitError, match="multiples of 300 s"):
        Wanted(horizons_s=horizons)


def test_two_days_are_too_few_and_it_says_how_many_are_needed() -> None:
    with pytest.raises(CohabitError, match="--days 3"):
        Wanted(horizons_s=(3600,), days=2)


def test_another_cluster_is_an_error_that_says_what_to_check(folder: Path) -> None:
    with pytest.raises(CohabitError, match="COHABIT_CLUSTER"):
        newest_measured(Lake.open(folder / "lake", TABLES), "other")


def command(folder: Path, *words: str) -> Result:
    env = {
        "COLUMNS": "200",
        "COHABIT_CLUSTER": "c",
        "COHABIT_LAKE": str(folder / "lake"),
        "COHABIT_SNAPSHOTS": str(folder / "snapshots"),
        "COHABIT_REGISTRY": str(folder / "registry"),
    }
    return CliRunner().invoke(app, ["capacity", "headroom", "--horizon", "1h", "--days", "3", *words], env=env)


def test_the_command_shows_publishes_and_exports(folder: Path, report: OfferReport) -> None:
    files = {name: folder / name for name in ("all.json", "patches.jsonl", "headroom.prom")}
    out, to, metrics = map(str, files.values())

    ran = command(folder, "--json", out, "--publish", "--export", "koordinator", to, "--metrics", metrics)

    assert ran.exit_code == 0, ran.output
    assert "8 nodes, of 6 enough is known at every horizon" in ran.output
    assert "nodes without an offer of CPU for 1h, by reason: stale 1, young 1" in ran.output
    assert "without the limit by interference: no usable snapshot" in ran.output
    assert "residents may exceed what is left for them in 5% of forecasts" in ran.output
    assert "so offers in exports, metrics and messages are 0: run `cohabit features`" in " ".join(ran.output.split())
    published = read_offers(folder / "snapshots")
    assert published is not None
    assert published.offers == report.offers
    assert [one["node"] for one in json.loads(files["all.json"].read_text())["offers"][::2]] == [
        f"n{number}" for number in range(8)
    ]
    patches = [json.loads(line) for line in files["patches.jsonl"].read_text().splitlines()]
    assert len(patches) == 8
    assert {one["value"] for patch in patches for one in patch["patch"]} == {"0"}, "the lake is of long ago"
    assert "cohabit_headroom_offered" in files["headroom.prom"].read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--export", "mesos", "x"), "give koordinator, extended, annotations, then a file"),
        (("--json", "nowhere/x.json"), "the folder does not exist"),
        (("--horizon", "2h"), "choose from 5m, 15m, 1h, 6h, 24h"),
        (("--lake", "nowhere"), "no lake in 'nowhere'"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_is_read(folder: Path, words: tuple[str, ...], said: str) -> None:
    ran = command(folder, *words)

    assert ran.exit_code == 1
    assert said in " ".join(ran.output.split())
