"""What `make e2e-s3` builds and how its servers are found, without the programs that it runs."""

import os
from pathlib import Path

import pytest

from e2e.kube.errors import NoGo
from e2e.s3.line import LOOKED_AT, STEPS
from e2e.s3.servers import HERE, PROGRAMS, Server, known, program, versions

SERVER = Server("s3://lakes", {"AWS_ENDPOINT_URL": "http://127.0.0.1:1"})


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_modules_pin_the_versions_that_are_built(name: str) -> None:
    of = versions(name, (HERE / name / "go.mod").read_text())

    assert of.keys() == {"go", name}
    assert f"{PROGRAMS[name].module} v{of[name]} h1:" in (HERE / name / "go.sum").read_text()


@pytest.mark.parametrize("name", PROGRAMS)
def test_without_go_the_remedy_is_named(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("COHABIT_CACHE", str(tmp_path))

    with pytest.raises(NoGo, match=f"put `go` on PATH; it builds {name}"):
        program(name, print)


def test_no_other_account_is_used_while_a_server_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_PROFILE", "production")

    with known(SERVER):
        within = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}

    assert within == SERVER.environment
    assert os.environ["AWS_PROFILE"] == "production"
    assert "AWS_ENDPOINT_URL" not in os.environ


def test_tables_are_compared_after_steps_of_the_line() -> None:
    assert set(LOOKED_AT) <= set(STEPS)
