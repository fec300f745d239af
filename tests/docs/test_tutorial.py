"""The commands of both parts of the tutorial run in their order, as a reader types them, and print what is shown."""

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.cookiejar import CookieJar
from pathlib import Path
from time import monotonic
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, build_opener, urlopen

import pytest

from tests.advisor.commands import BIN, environment
from tests.docs.node_counts import by_map_and_page

pytestmark = pytest.mark.long
GROUPS = {"admin", "dev", "lake", "model", "plan"}
DOCS = Path(__file__).parents[2] / "docs"
PAGE = "".join((DOCS / name).read_text() for name in ("tutorial.md", "tutorial-plans.md"))
BLOCKS = re.findall(r"<!-- (runs as a test[^>]*) -->\n```sh\n(.*?)```", PAGE, flags=re.DOTALL)
PLAIN, ASKS, APPROVED = (
    "runs as a test",
    "runs as a test against a running server",
    "runs as a test after another person approved",
)
MONTH, DAY = "bill meter --from 2026-03-02 ", "bill meter --from 2026-03-31 "
"""A month of metering takes a minute, its last day seconds; it counts from the first hour that was metered."""


def exports() -> dict[str, str]:
    return dict(re.findall(r"(COHABIT_\w+)=(\S+)", BLOCKS[0][1]))


def shell(commands: str, folder: Path) -> str:
    checked = re.sub(r"^(cohabit .*?) +# exit code (\d+):.*$", r"\1 || test $? -eq \2", commands, flags=re.MULTILINE)
    ran = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", checked],
        cwd=folder, env=environment(folder) | exports(), capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert ran.returncode == 0, commands + ran.stdout + ran.stderr
    return ran.stdout


def ready(main: str) -> bool:
    try:
        return bool(urlopen(f"{main}/readyz", timeout=5).status == 200)  # noqa: S310
    except HTTPError:
        return False


@contextmanager
def served(folder: Path, **more: str) -> Iterator[tuple[str, str]]:
    """`cohabit serve` over what the steps left; its two addresses, once it is ready."""
    settings = environment(folder) | exports() | more
    with subprocess.Popen(
        [BIN / "cohabit", "serve"], cwd=folder, env=settings, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            main, scheduler = re.findall(r"http://[\d.:]+", process.stdout.readline())
            deadline = monotonic() + 120
            while not ready(main):
                assert monotonic() < deadline
            yield main, scheduler
        finally:
            process.terminate()


def approve(main: str, token: str) -> None:
    """Log in with a token and press Approve beside the price book, as a browser does."""
    browser = build_opener(HTTPCookieProcessor(CookieJar()))

    def page(path: str, **form: str) -> str:
        body: str = browser.open(main + path, urlencode(form).encode() if form else None, timeout=10).read().decode()
        return body

    def proof(of: str) -> str:
        found = re.search(r'name="csrf" value="([^"]+)"', of)
        assert found is not None
        return found[1]

    page("/ui/login", csrf=proof(page("/ui/login")), next="/ui/prices", token=token)
    button = page("/ui/prices").split('action="/ui/prices/2026-03/approve"')[1]
    page("/ui/prices/2026-03/approve", csrf=proof(button))


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What each block told, by its first command."""
    folder = tmp_path_factory.mktemp("tutorial")
    found: dict[str, str] = {}
    for marker, commands in BLOCKS:
        if marker == ASKS:
            with served(folder) as (main, scheduler):
                asked = commands.replace("localhost:8080", main).replace("localhost:8081", scheduler)
                found["curl"] = shell(asked, folder)
                found["counts"] = json.dumps(by_map_and_page(main))
        elif marker == APPROVED:
            with served(folder, COHABIT_ADVISOR__AUTH="token") as (main, _):
                approve(main, (folder / "try" / "bob").read_text().split()[0])
            found["close"] = shell(commands.replace("--team team-0", "--team platform"), folder)  # no team on that day
        else:
            assert marker == PLAIN
            words = commands.split("\n")[0].split()
            name = " ".join([words[2 if words[1] in GROUPS else 1], *(word for word in words if word == "second")])
            found[name] = shell(commands.replace(MONTH, DAY), folder)
    found["plan"] = (folder / "try" / "plan.json").read_text()
    found["statement"] = (folder / "try" / "team-0.html").read_text()
    return found


def test_metrics_become_training_rows_and_a_model(told: dict[str, str]) -> None:
    assert "undecodable" in told["ingest"]
    assert int(re.findall(r"training: ([\d,]+)", told["features"])[0].replace(",", "")) > 1000
    assert "first is current" in " ".join(told["train"].split())
    assert "6 nodes, 72 containers" in told["refresh"]


def test_the_advisor_tells_the_quiet_node_from_the_crowded_one(told: dict[str, str]) -> None:
    prioritized, scores = re.split(r"(?<=\])(?=\{)", told["curl"], maxsplit=1)
    quiet, crowded = (entry["Score"] for entry in json.loads(prioritized))

    assert quiet > crowded
    assert [node["node"] for node in json.loads(scores)["nodes"]] == ["node-0000", "node-0004"]


def test_advice_is_what_the_page_shows(told: dict[str, str]) -> None:
    advised = json.loads(re.split(r"(?<=\])(?=\{)", told["curl"], maxsplit=1)[1])["nodes"]

    for name, within in (("score", 1.0), ("slowdown_ratio", 0.05), ("slowdown_upper", 0.05)):
        shown = [float(value) for value in re.findall(rf'"{name}":([\d.]+)', PAGE)]
        assert [node[name] for node in advised] == pytest.approx(shown, abs=within)


def test_the_map_counts_of_each_node_what_its_page_lists(told: dict[str, str]) -> None:
    counts = json.loads(told["counts"])

    assert len(counts) == 6
    assert sum(containers for _, (containers, _), _ in counts) == 72
    assert [node for node, by_map, by_page in counts if by_map != by_page] == []


def test_a_victim_is_explained_and_a_plan_given_out(told: dict[str, str]) -> None:
    assert "c000433 of app-007 on node-0005" in told["database"]
    assert "approved" in told["create"]
    assert json.loads(told["plan"])["steps"]


def test_a_second_model_passes_the_gate_and_becomes_current(told: dict[str, str]) -> None:
    assert "fine: served as it is" in told["drift"]
    assert told["train second"].count("second is current") == 1


def test_the_month_is_closed_and_adds_up(told: dict[str, str]) -> None:
    assert "2026-03 is closed" in told["close"]
    assert "all postings sum to 0" in told["close"]
    assert "platform" in told["statement"]
