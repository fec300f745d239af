"""What docs/access.md says can be done as it says, with a running `cohabit serve`; and what is refused at start."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from advisor.api.app import create_app
from advisor.api.http.roles import roles_of
from advisor.placement.model_state import Serving
from models.registry.registry import Registry
from tests.advisor.commands import BIN, environment, run
from tests.advisor.running import fill

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "access.md").read_text()


def block(marker: str) -> str:
    found = re.search(rf"<!-- {marker} -->\n```sh\n(.*?)```", PAGE, flags=re.DOTALL)
    assert found is not None
    return found[1]


WITH_A_SERVER = """
exec 3>&1
{steps}
server=$!
trap 'kill $server' EXIT
until grep -q http:// serve.log; do kill -0 $server; read -rt 0.1 <> <(:) || true; done
MAIN=$(grep -o 'http://[0-9.:]*' serve.log | head -1)
until curl -s $MAIN/readyz | grep -q ready; do read -rt 0.1 <> <(:) || true; done
{asks}
"""


def test_the_commands_run(tmp_path: Path, empty_address: str) -> None:
    fill(tmp_path)
    steps = block("runs as a test").replace("cohabit serve &", "cohabit serve >serve.log 2>&1 &")
    asks = block("runs as a test against a running server").replace("localhost:8080", "$MAIN").replace("\n", "\necho\n")

    ran = run(tmp_path, WITH_A_SERVER.format(steps=steps, asks=asks), database=empty_address)

    assert ran.returncode == 0, ran.stdout + ran.stderr + (tmp_path / "serve.log").read_text()
    made, *_ = ran.stdout.splitlines()
    scores, refused = (json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{"))
    assert "made at version" in made
    assert [node["node"] for node in scores["nodes"]] == ["n0"]
    assert "Authorization: Bearer" in refused["error"]
    rows = [line.split("\t") for line in ran.stdout.splitlines() if line.count("\t") == 6]
    assert [row[3] for row in rows] == ["token create", "request", "token revoke"]
    assert rows[1][1:6] == ["from 127.0.0.1", "-", "request", "POST /v1/scores", "401 no token"]
    everything = ran.stdout + ran.stderr + (tmp_path / "serve.log").read_text()
    assert not re.search(r"chb_[0-9a-f]{12}_", everything)


def test_the_table_of_roles_is_that_of_the_routes(tmp_path: Path) -> None:
    app = create_app(Serving(tmp_path, Registry(tmp_path), 1.0, lambda: 0, CollectorRegistry()))
    told = dict(re.findall(r"^\| `([A-Z]+ /\S*)` \| ([a-z, ]+) \|$", PAGE, flags=re.MULTILINE))

    assert told == {name: ", ".join(role for role in roles if role != "admin") for name, roles in roles_of(app).items()}


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::"])  # noqa: S104
def test_open_to_others_is_refused_at_start(tmp_path: Path, host: str) -> None:
    ran = run(tmp_path, "cohabit serve", advisor__host=host)

    assert (ran.returncode, ran.stdout) == (1, "")
    assert f"COHABIT_ADVISOR__HOST={host}" in ran.stderr
    assert "COHABIT_ADVISOR__AUTH=token" in ran.stderr


def test_tokens_without_a_store_are_refused_at_start(tmp_path: Path, empty_address: str) -> None:
    ran = run(tmp_path, "cohabit serve", advisor__auth="token", database=empty_address)

    assert (ran.returncode, ran.stdout) == (1, "")
    assert "run `cohabit admin database migrate`" in ran.stderr


def listening(folder: Path, **settings: str) -> tuple[str, str]:
    """Where `cohabit serve` says it listens, for people and for schedulers; it is stopped then."""
    with subprocess.Popen(
        [BIN / "cohabit", "serve"], cwd=folder, env=environment(folder, **settings), stdout=subprocess.PIPE, text=True
    ) as served:
        assert served.stdout is not None
        main, scheduler = re.findall(r"http://[\d.:]+", served.stdout.readline())
        served.terminate()
        served.stdout.read()  # it may still have something to say
    assert served.returncode == 0
    return main, scheduler


def test_an_open_server_needs_no_store(tmp_path: Path) -> None:
    main, _ = listening(tmp_path, database="nowhere/store.sqlite")

    assert main.startswith("http://127.0.0.1:")
    assert not (tmp_path / "nowhere").exists()


def test_with_tokens_another_address_is_listened_on_by_people_alone(tmp_path: Path) -> None:
    store = str(tmp_path / "store.sqlite")
    run(tmp_path, "cohabit admin database migrate", database=store)

    main, scheduler = listening(tmp_path, database=store, advisor__auth="token", advisor__host="0.0.0.0")  # noqa: S104

    assert main.startswith("http://0.0.0.0:")
    assert scheduler.startswith("http://127.0.0.1:")
