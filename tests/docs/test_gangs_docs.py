"""The example of docs/gangs.md shows what the page shows."""

import json
import re
from dataclasses import replace
from pathlib import Path
from time import time_ns

import numpy as np
import pytest
from typer.testing import CliRunner

from advisor.admission.node_room import NodeRoom, Rooms
from advisor.admission.room_file import read_rooms, write_rooms
from advisor.api.v1.gangs import GangAsk
from advisor.cluster.snapshot import load_current, publish
from advisor.database.engine import open_store
from advisor.gangs.gang_columns import ClassCosts
from advisor.gangs.gang_desk import GangDesk
from cohabit.cli.main import app
from models.registry.registry import Registry
from tests.advisor.clusters import NOW_US, snapshot, trained, write
from tests.advisor.stores import migrated_file

PAGE = (Path(__file__).parents[2] / "docs" / "gangs.md").read_text()


def block(heading: str) -> str:
    found = re.search(rf"<!-- {heading} -->\n```\w+\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found[1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two racks of three nodes with room for two workers each, the last one without devices."""
    made = tmp_path_factory.mktemp("gangs")
    registry = Registry(made / "registry")
    write(trained(), registry.root / "first")
    registry.promote("first")
    view = replace(snapshot(11, version=1), racks=("r0",) * 3 + ("r1",) * 3, node_known=np.ones(6, np.bool_))
    publish(made / "snapshots", view)
    devices = [2.0] * 5 + [0.0]
    nodes = tuple(
        NodeRoom(name, cores=8.0, memory_bytes=1e9, extended={"nvidia.com/gpu": free})
        for name, free in zip(view.nodes, devices, strict=True)
    )
    write_rooms(made / "snapshots", Rooms(view.cluster, NOW_US, nodes))
    return made


def shown(folder: Path, gang: str, code: int, database: str = "none.sqlite") -> list[str]:
    """Words of each line that the command prints, without rules of tables."""
    file = folder / "gang.json"
    file.write_text(gang)
    env = {name: str(folder / name.split("_")[1].lower()) for name in ("COHABIT_REGISTRY", "COHABIT_SNAPSHOTS")}
    env |= {"COLUMNS": "200", "COHABIT_DATABASE": str(folder / database)}
    done = CliRunner().invoke(app, ["plan", "gang", str(file)], env=env)
    assert done.exit_code == code, done.output
    return [" ".join(re.sub("[│┃]", " ", line).split()) for line in done.output.splitlines()]


def test_the_example_shows_what_the_page_shows(folder: Path) -> None:
    printed = shown(folder, block("gang.json of the example"), 0)

    for line in block("printed by the example").splitlines():
        assert " ".join(line.split()) in printed


def test_with_a_database_slots_of_other_gangs_are_taken_off(folder: Path) -> None:
    file, view = migrated_file(folder / "gangs.sqlite"), load_current(folder / "snapshots")
    body, other = (
        json.loads(block("gang.json of the example")),
        GangAsk.model_validate_json(block("gang.json of the example")),
    )
    with open_store(file) as store:
        n = len(view.nodes)
        free = ClassCosts(view.nodes, np.zeros((1, n)), np.zeros((1, 1, n)))
        rooms = read_rooms(folder / "snapshots")
        desk = GangDesk(store, lambda: view, lambda: rooms, lambda _of, _held: free, lambda: time_ns() // 1000)
        assert desk.reserve(other.request(), 3600 * 10**6).reservation is not None

    again = shown(folder, json.dumps(body), 0, "gangs.sqlite")
    assert any("default/train has reservation" in line for line in again)
    refused = shown(folder, json.dumps({**body, "gang": "second"}), 1, "gangs.sqlite")
    assert "default/second cannot start whole: rack r1: 4 of 5; gpu" in refused


def test_a_gang_that_does_not_fit_gets_the_reason(folder: Path) -> None:
    body = json.loads(block("gang.json of the example"))
    body["members"][0]["count"] = 8

    assert set(block("printed for eight members").splitlines()) <= set(shown(folder, json.dumps(body), 1))
    preferred = {**body, "topology": {"level": "rack", "mode": "preferred"}}
    assert any("8 members in rack r0, r1" in line for line in shown(folder, json.dumps(preferred), 0))


@pytest.mark.parametrize("text", ["{}", "[", '{"gang": "g", "members": []}'])
def test_a_file_that_is_no_gang_is_refused(folder: Path, text: str) -> None:
    assert any("is no gang" in line for line in shown(folder, text, 3))
