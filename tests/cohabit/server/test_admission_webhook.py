"""The webhook's listener: TLS without a client certificate, renewed while it runs, next to the other listeners."""

import http.client
import json
import os
import re
import socket
import ssl
import subprocess
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from time import time_ns

import pytest
from typer.testing import CliRunner

from cohabit.cli.main import app
from cohabit.config.errors import BadSettings, CohabitError
from cohabit.config.settings import read_settings
from cohabit.server.main import each_of
from cohabit.server.sockets import ServerTls, free_socket
from cohabit.server.webhook_certificate import WebhookFiles, write_webhook_files
from tests.advisor.admission.reviews import patch_of, review
from tests.advisor.running import fill

NAME = "cohabit-admission.cohabit.svc"


def made(folder: Path) -> WebhookFiles:
    return write_webhook_files(folder, [NAME, "localhost"], 30, datetime.fromtimestamp(time_ns() / 1e9, UTC))


def test_pods_are_allowed_over_tls_in_a_real_server(tmp_path: Path) -> None:
    files = made(tmp_path / "certificates")
    fill(tmp_path)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("COHABIT_")}
    wished = {
        "COHABIT_REGISTRY": tmp_path / "registry",
        "COHABIT_SNAPSHOTS": tmp_path / "snapshots",
        "COHABIT_ADVISOR__ADMISSION_CERTIFICATE": files.certificate,
        "COHABIT_ADVISOR__ADMISSION_KEY": files.key,
    }
    ports = ("--port", "0", "--scheduler-port", "0", "--admission-port", "0", "--admission", "advise")
    settings = kept | {name: str(value) for name, value in wished.items()} | {"COLUMNS": "200"}
    command = [sys.executable, "-m", "cohabit", "serve", *ports]
    with subprocess.Popen(command, env=settings, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        [port] = re.findall(r"kube-apiserver: https://127.0.0.1:(\d+)/admission", process.stdout.readline())
        context = ssl.create_default_context(cafile=str(files.ca))
        connection = http.client.HTTPSConnection("localhost", int(port), timeout=10, context=context)
        connection.request("POST", "/admission?timeout=1s", review())
        reply = connection.getresponse()
        assert reply.status == 200
        patch_of(reply.read())
        connection.close()
        process.terminate()


def test_a_renewed_certificate_is_shown_to_new_connections(tmp_path: Path) -> None:
    files = made(tmp_path)
    tls = ServerTls(files.certificate, files.key)
    first = shown(tls)

    os.utime(made(tmp_path).key, ns=(1, 1))
    tls.renew()

    assert shown(tls) != first


def test_a_renewal_that_cannot_be_used_leaves_the_certificate_that_was_shown(tmp_path: Path) -> None:
    files = made(tmp_path)
    tls = ServerTls(files.certificate, files.key)
    first, whole = shown(tls), files.certificate.read_bytes()

    for spoilt in (made(tmp_path / "other").certificate.read_bytes(), b"", b"no certificate"):
        files.certificate.write_bytes(spoilt)
        tls.renew()
        assert shown(tls) == first

    files.certificate.unlink()
    tls.renew()
    assert shown(tls) == first

    files.certificate.write_bytes(whole)
    os.utime(made(tmp_path).key, ns=(1, 1))
    tls.renew()
    assert shown(tls) != first


def test_a_failure_of_one_part_of_the_server_stops_no_other() -> None:
    done = list[str]()

    def fails() -> None:
        raise OSError("no process")

    each_of([fails, lambda: done.append("renewed")])

    assert done == ["renewed"]


def shown(tls: ServerTls) -> bytes | None:
    """The certificate that a client sees."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with free_socket(0) as listening:

        def answer() -> None:
            accepted, _ = listening.accept()
            tls.context.wrap_socket(accepted, server_side=True).close()

        thread = threading.Thread(target=answer)
        thread.start()
        with context.wrap_socket(socket.create_connection(listening.getsockname())) as connection:
            found = connection.getpeercert(binary_form=True)
        thread.join()
    return found


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    with pytest.raises(CohabitError, match=r"ADMISSION_CERTIFICATE.*cohabit admin certificate"):
        ServerTls(tmp_path / "none.crt", tmp_path / "none.key")


@pytest.mark.parametrize(
    ("given", "message"),
    [({"HOST": "0.0.0.0"}, "requires a certificate"), ({"KEY": "a"}, "go together"), ({"": "on"}, "ADMISSION")],  # noqa: S104
    ids=str,
)
def test_a_webhook_that_others_reach_needs_a_certificate(given: dict[str, str], message: str) -> None:
    with pytest.raises(BadSettings, match=message):
        read_settings({f"COHABIT_ADVISOR__ADMISSION_{name}".rstrip("_"): value for name, value in given.items()})


def test_the_command_writes_files_that_only_the_owner_reads_and_prints_the_bundle(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["admin", "certificate", str(tmp_path), "--name", "a.b.svc"])

    assert done.exit_code == 0
    assert (tmp_path / "tls.key").stat().st_mode & 0o777 == 0o600
    assert re.search(r"^caBundle: [A-Za-z0-9+/=]{100,}$", done.output, re.MULTILINE)
    assert json.dumps(ssl._ssl._test_decode_cert(str(tmp_path / "tls.crt"))["subjectAltName"]) == '[["DNS", "a.b.svc"]]'  # type: ignore[attr-defined]


def test_the_key_of_a_former_certificate_is_replaced_only_on_demand_and_only_the_owner_reads_it(tmp_path: Path) -> None:
    key = tmp_path / "tls.key"
    key.write_text("former")
    key.chmod(0o644)

    refused = CliRunner().invoke(app, ["admin", "certificate", str(tmp_path)], env={"COLUMNS": "400"})
    assert refused.exit_code == 1
    assert "--overwrite" in refused.output
    assert key.read_text() == "former"

    assert CliRunner().invoke(app, ["admin", "certificate", str(tmp_path), "--overwrite"]).exit_code == 0
    assert key.stat().st_mode & 0o777 == 0o600
    assert key.read_text().startswith("-----BEGIN PRIVATE KEY-----")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ca.crt", "tls.crt", "tls.key"]
