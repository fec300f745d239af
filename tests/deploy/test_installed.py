"""What the second part of `make e2e-helm` reads from pages and manifests, without the programs that it runs."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.helm import in_pod
from e2e.helm.chart import CHART, ROOT
from e2e.helm.containers import entry_point, placed
from tests.deploy.installed import PAGE, commands, extender_of, resolved

HEADING = "Three commands to the first advised pod"


@pytest.fixture
def page() -> str:
    return PAGE.read_text()


def test_three_commands_lead_to_the_first_advised_pod(page: str) -> None:
    programs = [shlex.split(line)[0] for line in commands(page, HEADING)]

    assert programs == ["helm", "kubectl", "kubectl"]


def test_the_readme_and_the_notes_have_the_same_commands(page: str) -> None:
    install, train, run = commands(page, HEADING)
    notes = (CHART / "templates" / "NOTES.txt").read_text().replace("{{ .Release.Namespace }}", "cohabit")
    readme = (ROOT / "README.md").read_text().replace("\\\n", " ")

    assert [line for line in (train, run) if line not in notes] == []
    assert [line for line in (install, train, run) if " ".join(line.split()) not in " ".join(readme.split())] == []


def test_schedulers_have_the_address_that_is_installed(page: str) -> None:
    install, *_ = commands(page, HEADING)
    extender = extender_of(page)
    [address] = [word.partition("=")[2] for word in install.split() if "schedulersAddress" in word]

    assert extender["urlPrefix"] == f"https://{address}:8081/extender"
    assert f"IP:{address}," in (ROOT / "docs" / "deployment.md").read_text()
    assert resolved(extender, 1234, Path("/keys")) == {
        **extender,
        "urlPrefix": "https://127.0.0.1:1234/extender",
        "tlsConfig": {
            "caFile": "/keys/ca.crt",
            "certFile": "/keys/kube-scheduler.crt",
            "keyFile": "/keys/kube-scheduler.key",
            "serverName": address,
        },
    }


def test_paths_below_a_mount_are_in_its_folder() -> None:
    places = {"/data": "/a", "/data/landed": "/tmp/b", "/tmp": "/c", "0.0.0.0": "127.0.0.1"}  # noqa: S104, S108

    assert placed("/data/landed/lake", places) == "/tmp/b/lake"  # noqa: S108
    assert placed("/data/landed.old:/data", places) == "/a/landed.old:/a"
    assert placed("0.0.0.0", places) == "127.0.0.1"  # noqa: S104
    assert placed("/database", places) == "/database"


@pytest.mark.parametrize("image", ["cohabit-serve:0.1.0", "registry.example/team/cohabit-jobs@sha256:0"])
def test_an_entry_point_is_that_of_the_image(image: str) -> None:
    assert entry_point(image) == ["cohabit"]


def test_a_command_in_a_pod_has_its_variables_and_folders(tmp_path: Path) -> None:
    pod = {"words": [], "env": {"WHO": "pod", "PATH": "/usr/bin:/bin"}, "places": {"/data": str(tmp_path)}}
    (tmp_path / "cohabit-tools-7d9-x2.json").write_text(json.dumps(pod))
    asked = ["-n", "cohabit", "exec", "deployment/cohabit-tools", "--", "sh", "-c", "echo $WHO /data/x"]

    done = subprocess.run(
        [sys.executable, in_pod.__file__, str(tmp_path), *asked], capture_output=True, text=True, check=False
    )
    absent = subprocess.run(
        [sys.executable, in_pod.__file__, str(tmp_path / "none"), *asked], capture_output=True, text=True, check=False
    )

    assert done.stdout == f"pod {tmp_path}/x\n"
    assert absent.stderr == "0 pods of cohabit-tools run, not 1\n"
