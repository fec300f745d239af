"""A running `cohabit serve` lets in who shows a token of the issuer that it was told of."""

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import time_ns
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tests.advisor.commands import BIN, environment, run
from tests.advisor.issuers import LittleIssuer, ec_key, public_jwk, running_issuer, token
from tests.advisor.running import fill


def now_s() -> int:
    return time_ns() // 10**9


@contextmanager
def serving(folder: Path, issuer: str) -> Iterator[str]:
    """Where people come in."""
    told = {
        "auth": "token",
        "oidc_issuer": issuer,
        "oidc_audience": "cohabit",
        "oidc_roles": '{"platform-team": "sre"}',
    }
    settings = {f"advisor__{name}": value for name, value in told.items()} | {"database": str(folder / "store.sqlite")}
    run(folder, "cohabit admin database migrate", **settings)
    with (
        (folder / "serve.log").open("w") as said,
        subprocess.Popen(
            [BIN / "cohabit", "serve"],
            cwd=folder, env=environment(folder, **settings), stdout=subprocess.PIPE, stderr=said, text=True,
        ) as served,
    ):  # fmt: skip
        assert served.stdout is not None
        main, _ = re.findall(r"http://[\d.:]+", served.stdout.readline())
        yield main
        served.terminate()


def status(main: str, shown: str) -> int:
    """Of asking for scores of a node."""
    headers = {"Authorization": f"Bearer {shown}", "Content-Type": "application/json"}
    asked = Request(f"{main}/v1/scores", json.dumps({"app": "web", "nodes": ["n0"]}).encode(), headers)  # noqa: S310
    try:
        with urlopen(asked, timeout=20) as reply:  # noqa: S310
            return int(reply.status)
    except HTTPError as error:
        error.close()
        return error.code


def shown_by(issuer: LittleIssuer, **more: object) -> str:
    told = {"iss": issuer.url, "aud": "cohabit", "sub": "alice", "exp": now_s() + 60, "groups": ["platform-team"]}
    return token({**told, **more}, ec_key(), "ES256", kid="one")


def test_who_shows_a_token_of_the_issuer_is_let_in(tmp_path: Path) -> None:
    fill(tmp_path)
    with running_issuer() as issuer:
        issuer.publish(public_jwk(ec_key(), kid="one"))
        with serving(tmp_path, issuer.url) as main:
            assert status(main, shown_by(issuer)) == 200
            assert status(main, shown_by(issuer, groups=[])) == 403
            assert status(main, shown_by(issuer, exp=now_s() - 60)) == 401
        assert issuer.times() == 1  # at start

    told = run(tmp_path, "cohabit admin audit", database=str(tmp_path / "store.sqlite")).stdout
    assert [line.split("\t")[1:6] for line in told.splitlines()] == [
        ["oidc:alice", "-", "request", "POST /v1/scores", "403 no role"],
        ["oidc:alice", "sre", "request", "POST /v1/scores", "401 expired token"],
    ]


def test_an_issuer_that_is_away_does_not_keep_it_from_starting_and_the_log_says_so(tmp_path: Path) -> None:
    with running_issuer() as issuer:
        gone = issuer.url
    with serving(tmp_path, gone) as main:
        assert status(main, shown_by(issuer)) == 503

    assert "COHABIT_ADVISOR__OIDC_ISSUER" in (tmp_path / "serve.log").read_text()


def test_an_issuer_without_tls_is_refused_at_start(tmp_path: Path) -> None:
    told = {"advisor__oidc_audience": "cohabit", "advisor__oidc_roles": '{"a": "sre"}', "advisor__auth": "token"}

    ran = run(tmp_path, "cohabit serve", advisor__oidc_issuer="http://id.example", **told)

    assert (ran.returncode, ran.stdout) == (1, "")
    assert "https" in ran.stderr
