"""Files of a purchase: months, days and names become a problem, and what cannot be used is refused where it stands."""

from datetime import date
from pathlib import Path

import numpy as np
import pytest

from advisor.purchase.orders.order_problem import Limits
from cohabit.capacity.purchases.purchase_files import read_skus
from cohabit.capacity.purchases.purchase_inputs import PurchaseInputs, purchase_inputs
from cohabit.config.errors import CohabitError
from tests.cohabit.capacity.purchases.purchase_site import FILES, with_line, written_files

SKU, RACK, DEMAND = FILES["skus"][1], FILES["racks"][1], FILES["demand"][1]


def read(folder: Path, survive: str = "zone", **changed: tuple[str, ...]) -> PurchaseInputs:
    return purchase_inputs(written_files(folder, **changed), survive, Limits())


def test_prices_are_by_month_of_life_and_leads_whole_months(tmp_path: Path) -> None:
    problem = read(tmp_path).problem

    assert problem.of.types.price.tolist() == [150.0, 500.0]
    assert problem.terms.outlay.tolist() == [7200.0, 24000.0]
    assert problem.terms.lead.tolist() == [1, 2]


def test_deliveries_serve_from_the_next_month_and_retired_machines_not_in_their_month(tmp_path: Path) -> None:
    standing = read(tmp_path).problem.standing

    assert standing[0].tolist() == [[2, 2, 3], [2, 2, 1]]
    early = read(tmp_path, in_flight=with_line("in_flight", 1, "c32,a1,1,2027-02-01")).problem.standing
    assert early[0, 0].tolist() == [2, 3, 3]


def test_a_month_without_a_line_has_no_pods_and_events_raise_the_months_that_they_touch(tmp_path: Path) -> None:
    pods = read(tmp_path).problem.demand.pods

    assert pods[0].tolist() == [[10, 0], [18, 0], [30, 2]]


def test_pods_run_only_on_the_gpu_models_that_they_name(tmp_path: Path) -> None:
    assert read(tmp_path).problem.of.allowed.tolist() == [[True, True], [False, True]]
    with pytest.raises(CohabitError, match=r"demand.csv:5, column shape: 'infer': no SKU of .* holds one pod"):
        read(tmp_path, demand=with_line("demand", 4, "2027-03,infer,4000,8192,0,600,H100,no,1,2"))


def test_ports_of_any_speed_serve_the_fastest_machines(tmp_path: Path) -> None:
    assert read(tmp_path).problem.racks.ports.tolist() == [[8, 4], [0, 16]]


def test_a_sku_is_ordered_only_while_it_is_sold(tmp_path: Path) -> None:
    header, line = FILES["skus"][0] + ",available_to", SKU + ",2027-01-15"

    terms = read(tmp_path, skus=(header, line, FILES["skus"][2] + ",")).problem.terms

    assert (terms.first.tolist(), terms.last.tolist()) == ([0, 0], [0, -1])
    assert read(tmp_path).problem.terms.last.tolist() == [1, -1]


def test_a_delivery_takes_its_lead_time_to_the_day_and_earlier_orders_serve_earlier(tmp_path: Path) -> None:
    """Sixty days before 1 March are 31 December, and thirty before 1 January 2 December."""
    files = written_files(tmp_path)

    def first_served(day: date) -> list[int]:
        terms = purchase_inputs(files, "zone", Limits(), day).problem.terms
        return list((terms.lead + terms.first)[terms.last >= terms.first])

    assert first_served(date(2027, 1, 1)) == [1]
    assert first_served(date(2026, 12, 31)) == [1, 2]
    assert first_served(date(2026, 12, 2)) == [0, 1]


def test_an_order_after_the_last_month_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CohabitError, match="--order-from 2027-04-01: demand ends before, in 2027-03"):
        purchase_inputs(written_files(tmp_path), "zone", Limits(), date(2027, 4, 1))


def test_empty_cells_of_a_rack_are_no_limit(tmp_path: Path) -> None:
    racks = read(tmp_path, racks=(FILES["racks"][0], "a1,a,hall-1,,,", FILES["racks"][2])).problem.racks

    assert (racks.power_w[0], racks.units[0], racks.ports[0].sum()) == (10**9, 10**9, 10**9)


@pytest.mark.parametrize(
    ("survive", "domains"),
    [("zone", ("zone a", "zone b")), ("room", ("room a/hall-1", "room b/hall-2")), ("rack", ("rack a1", "rack b1"))],
)
def test_domains_are_what_may_be_lost(tmp_path: Path, survive: str, domains: tuple[str, ...]) -> None:
    assert read(tmp_path, survive).problem.racks.domains == domains


@pytest.mark.parametrize(
    ("name", "at", "text", "message"),
    [
        ("skus", 1, SKU.replace("7200", "7.200,00"), r"skus.csv:2: 15 cells, where the header has 14"),
        ("skus", 1, SKU.replace("7200", "7 200"), r"skus.csv:2, column price: '7 200': write a number of at least 0"),
        ("skus", 1, SKU.replace("32000", "-5"), r"column cpu_milli: '-5': write a whole number from 1 to 1,000,000"),
        ("skus", 1, SKU.replace("48,30,1", "48,30,0"), r"column lot: '0': write a whole number from 1"),
        ("skus", 2, SKU, r"skus.csv:3, column sku: 'c32': line 2 has it too: write each once"),
        ("skus", 0, FILES["skus"][0].replace("lead_days", "lead"), r"skus.csv:1, column lead: .*: write lead_days"),
        ("racks", 0, "rack,zone,kw,units,ports", r"racks.csv:1, column room: it stands 0 times in the header"),
        ("racks", 1, RACK.replace("8x25", "8 x 25G"), r"racks.csv:2, column ports: .*write ports by Gbit/s, as 48x25"),
        ("racks", 2, RACK, r"racks.csv:3, column rack: 'a1': line 2 has it too"),
        ("fleet", 1, "c23,a1,2", r"fleet.csv:2, column sku: 'c23': .*write one of c32, g16"),
        ("in_flight", 1, "c32,a9,1,2027-02-10", r"in_flight.csv:2, column rack: 'a9': .*write one of a1, b1"),
        ("in_flight", 1, "c32,a1,1,10.02.2027", r"in_flight.csv:2, column deliver_by: .*: write a day as 2027-03-31"),
        ("retire", 1, "c32,b1,3,2027-03-31", r"retire.csv:2, column machines: '3': only 2 of c32 stand in b1 then"),
        ("demand", 2, DEMAND.replace("2027-01", "2027-13"), r"demand.csv:3, column month: .*write a month as 2027-03"),
        ("demand", 2, DEMAND, r"demand.csv:3, column shape: 'web': line 2 has it too"),
        ("demand", 2, DEMAND.replace("01,web,4000", "02,web,5000"), r"size differs from line 2: write another name"),
        ("demand", 1, DEMAND.replace("yes", "true"), r"column prod: 'true': write one of yes, no"),
        ("demand", 4, "2027-05,web,4000,8192,0,0,,yes,2,9", r"column month: '2027-05': 2027-04 is missing"),
        ("demand", 4, "2027-03,x,1,1,1,600,,no,1,9", r"column gpu_milli: '600': write a part of one GPU below 1000"),
        ("fleet", 2, "c32,a1,9", r"fleet.csv:3, column rack: 'a1': line 2 has it too"),
        ("racks", 1, RACK.replace("4.0", "-1"), r"racks.csv:2, column kw: '-1': write a number of at least 0"),
        ("events", 1, "sale,2027-03-05,2027-02-20,web,50", r"events.csv:2, column to: .*not before column from"),
        ("events", 1, "sale,2027-02-20,2027-03-05,wbe,50", r"events.csv:2, column shape: 'wbe': demand has no such"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_refused_with_line_column_and_what_to_write(
    tmp_path: Path, name: str, at: int, text: str, message: str
) -> None:
    files = written_files(tmp_path, **{name: with_line(name, at, text)})

    with pytest.raises(CohabitError, match=message):
        purchase_inputs(files, "zone", Limits())


def test_files_of_no_text_or_no_line_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "skus.csv"
    file.write_bytes(FILES["skus"][0].encode() + b"\nc\xff32")
    with pytest.raises(CohabitError, match=r"skus.csv:2: a byte that is not UTF-8: save the file as UTF-8"):
        read_skus(file)
    file.write_text(FILES["skus"][0])
    with pytest.raises(CohabitError, match="no line below the header"):
        read_skus(file)
    file.write_text("")
    with pytest.raises(CohabitError, match="the file is empty: begin with the header `sku,cpu_milli"):
        read_skus(file)
    file.write_text(FILES["skus"][0] + '\n"c32')
    with pytest.raises(CohabitError, match="close quotes"):
        read_skus(file)


def test_an_event_that_stands_twice_is_refused(tmp_path: Path) -> None:
    events = (*FILES["events"], FILES["events"][1])

    with pytest.raises(CohabitError, match=r"events.csv:3, column event: 'sale': line 2 has it too"):
        read(tmp_path, events=events)


def test_prod_pods_of_a_site_with_one_domain_cannot_survive_its_loss(tmp_path: Path) -> None:
    racks = tuple(line.replace(",b,", ",a,") for line in FILES["racks"])

    with pytest.raises(CohabitError, match=r"all racks are in one zone, .* --survive none"):
        read(tmp_path, racks=racks)
    assert not np.any(read(tmp_path, "none", racks=racks).problem.demand.protected)
