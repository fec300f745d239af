"""The listener for schedulers with certificates: whoever shows none of the right authority is not answered."""

import http.client
import os
import re
import ssl
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme
import yaml
from typer.testing import CliRunner

from cohabit.cli.main import app
from cohabit.config.errors import BadSettings, CohabitError
from cohabit.config.settings import read_settings
from cohabit.server.sockets import Certificates, secured_by
from tests.advisor.running import fill

BODY = b'{"Pod": {"metadata": {"labels": {"app": "web"}}}, "NodeNames": ["n0", "n1"]}'


@dataclass(frozen=True)
class Files:
    """PEM files of an authority, the advisor, and a scheduler."""

    ca: Path
    certificate: Path
    key: Path
    shown: Path
    shown_key: Path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return made(tmp_path_factory.mktemp("certificates"))


def made(folder: Path) -> Files:
    authority = trustme.CA()
    ours, theirs = authority.issue_cert("127.0.0.1"), authority.issue_cert("kube-scheduler")
    found = Files(
        *(folder / name for name in ("ca.pem", "advisor.pem", "advisor.key", "scheduler.pem", "scheduler.key"))
    )
    authority.cert_pem.write_to_path(found.ca)
    ours.cert_chain_pems[0].write_to_path(found.certificate)
    ours.private_key_pem.write_to_path(found.key)
    theirs.cert_chain_pems[0].write_to_path(found.shown)
    theirs.private_key_pem.write_to_path(found.shown_key)
    return found


@pytest.fixture(scope="module")
def listener(files: Files, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real server that asks for certificates."""
    folder = tmp_path_factory.mktemp("served")
    fill(folder)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("COHABIT_")}
    wished = {
        "COHABIT_REGISTRY": folder / "registry",
        "COHABIT_SNAPSHOTS": folder / "snapshots",
        "COHABIT_ADVISOR__SCHEDULER_CERTIFICATE": files.certificate,
        "COHABIT_ADVISOR__SCHEDULER_KEY": files.key,
        "COHABIT_ADVISOR__SCHEDULER_CLIENT_CA": files.ca,
    }
    command = [sys.executable, "-m", "cohabit", "serve", "--port", "0", "--scheduler-port", "0"]
    settings = kept | {name: str(value) for name, value in wished.items()} | {"COLUMNS": "200"}
    with subprocess.Popen(command, env=settings, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield re.findall(r"https://[\d.:]+", process.stdout.readline())[0]
        process.terminate()


def asked(listener: str, context: ssl.SSLContext) -> int:
    host = listener.removeprefix("https://")
    connection = http.client.HTTPSConnection(host, timeout=10, context=context)
    try:
        connection.request("POST", "/extender/prioritize", BODY)
        return connection.getresponse().status
    finally:
        connection.close()


def context_of(files: Files, shown: Files | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(files.ca))
    if shown is not None:
        context.load_cert_chain(shown.shown, shown.shown_key)
    return context


def test_a_scheduler_of_the_authority_is_answered(listener: str, files: Files) -> None:
    assert asked(listener, context_of(files, files)) == 200


def test_whoever_shows_nothing_or_somebody_elses_certificate_is_not(
    listener: str, files: Files, tmp_path: Path
) -> None:
    for shown in (None, made(tmp_path)):
        with pytest.raises((ssl.SSLError, ConnectionError, http.client.HTTPException)):
            asked(listener, context_of(files, shown))


def test_plain_http_is_not_answered(listener: str) -> None:
    connection = http.client.HTTPConnection(listener.removeprefix("https://"), timeout=10)
    connection.request("POST", "/extender/prioritize", BODY)

    with pytest.raises((ConnectionError, http.client.HTTPException)):
        connection.getresponse()


def test_the_doctor_asks_with_the_schedulers_certificate(listener: str, files: Files, tmp_path: Path) -> None:
    extender = {
        "urlPrefix": f"{listener}/extender",
        "prioritizeVerb": "prioritize",
        "weight": 1,
        "nodeCacheCapable": True,
        "ignorable": True,
        "httpTimeout": "100ms",
        "enableHTTPS": True,
        "tlsConfig": {"caFile": str(files.ca), "certFile": str(files.shown), "keyFile": str(files.shown_key)},
    }
    path = tmp_path / "scheduler.yaml"
    path.write_text(yaml.safe_dump({"kind": "KubeSchedulerConfiguration", "extenders": [extender]}))

    ran = CliRunner().invoke(app, ["doctor", "scheduler", "--config", str(path), "--requests", "5"])

    lines = ran.output.splitlines()
    assert f"asking {listener}/extender/prioritize as kube-scheduler does" in lines
    assert any(line.startswith("ok") and f"urlPrefix: {listener}/extender" in line for line in lines), ran.output
    assert any(line.startswith("ok") and "answer: 200" in line for line in lines), ran.output


@pytest.mark.parametrize("lacking", ["CERTIFICATE", "KEY", "CLIENT_CA"])
def test_certificates_go_together(lacking: str) -> None:
    names = {"CERTIFICATE", "KEY", "CLIENT_CA"} - {lacking}

    with pytest.raises(BadSettings, match="go together"):
        read_settings({f"COHABIT_ADVISOR__SCHEDULER_{name}": "file.pem" for name in names})


@pytest.mark.parametrize("host", ["0.0.0.0", "10.1.2.3", "::"])  # noqa: S104
def test_beyond_loopback_nobody_is_answered_without_certificates(host: str) -> None:
    with pytest.raises(BadSettings, match=r"^COHABIT_ADVISOR__SCHEDULER_HOST=.* requires certificates"):
        read_settings({"COHABIT_ADVISOR__SCHEDULER_HOST": host})
    read_settings({"COHABIT_ADVISOR__SCHEDULER_HOST": "::1"})


def test_files_that_are_no_certificates_are_named(files: Files, tmp_path: Path) -> None:
    (tmp_path / "nonsense").write_text("nonsense")
    with pytest.raises(CohabitError, match="PEM"):
        secured_by(Certificates(tmp_path / "nonsense", files.key, files.ca))
    with pytest.raises(CohabitError, match="PEM"):
        secured_by(Certificates(files.certificate, files.shown_key, files.ca))
    with pytest.raises(CohabitError, match="missing"):
        secured_by(Certificates(files.certificate, files.key, tmp_path / "missing"))
