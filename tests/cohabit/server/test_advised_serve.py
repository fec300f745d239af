"""A running `cohabit serve` draws and writes down what it was told to, and writes what waits before it ends."""

import json
import re
import subprocess
from pathlib import Path
from urllib.request import urlopen

import pytest

from advisor.placement.decision_log import read_advised
from tests.advisor.commands import BIN, environment
from tests.advisor.running import ASKED, fill, until_ready

UID = json.dumps({**json.loads(ASKED), "Pod": {"metadata": {"labels": {"app": "web"}, "uid": "u1"}}}).encode()


@pytest.mark.parametrize(("explore", "logged", "lines"), [("0", "0", 0), ("0.1", "1", 25)])
def test_decisions_are_beside_the_snapshots(tmp_path: Path, explore: str, logged: str, lines: int) -> None:
    fill(tmp_path)
    told = environment(tmp_path, advisor__exploration_rate=explore, advisor__decision_log_share=logged)
    with subprocess.Popen(
        [BIN / "cohabit", "serve"], cwd=tmp_path, env=told, stdout=subprocess.PIPE, text=True
    ) as served:
        assert served.stdout is not None
        main, scheduler = re.findall(r"http://[\d.:]+", served.stdout.readline())
        until_ready(main, scheduler)
        for _ in range(25):
            with urlopen(f"{scheduler}/extender/prioritize", UID, timeout=20) as reply:  # noqa: S310
                assert {entry["Host"] for entry in json.load(reply)} == {"n0", "n1"}
        served.terminate()
        served.stdout.read()

    found = read_advised(tmp_path / "snapshots" / "advised")
    assert len(found) == lines
    assert {(line.uid, line.app, line.share) for line in found} <= {("u1", "web", 0.1)}
