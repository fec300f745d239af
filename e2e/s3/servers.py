"""Servers: programs that speak S3, built once from the module proxy and kept by what they are built of. An edge.

Versions stand in go.mod of each program's folder, every byte of what is downloaded in its go.sum.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from e2e.kube.binaries import built
from e2e.kube.processes import HOST, answers, free_ports, running
from ingest.devkafka.java import cache_folder

HERE = Path(__file__).parent
BUCKET = "lakes"
KEY, SECRET = "e2e", "loopback-only"
LOSES = 50
"""Every so-many-th request to gofakes3 is carried out and answered with an error."""

Command = Callable[[Path, str, Path], Sequence[str | Path]]
"""Command line of a server: its program, HOST:PORT to listen on, and an empty folder for what it keeps."""


@dataclass(frozen=True)
class Program:
    """A program that serves S3.

    Args:
        module: Go module of which it is built, or that its few lines run.
        package: Go package of the program itself.
        command: its command line, with the bucket made.
    """

    module: str
    package: str
    command: Command


@dataclass(frozen=True)
class Server:
    """A running server.

    Args:
        bucket: address of the bucket.
        environment: variables by which clients find the server.
    """

    bucket: str
    environment: Mapping[str, str]


def _in_memory(program: Path, address: str, _folder: Path) -> Sequence[str | Path]:
    return program, address, BUCKET, str(LOSES)


def _over_a_folder(program: Path, address: str, folder: Path) -> Sequence[str | Path]:
    """A folder below the gateway's is a bucket."""
    (folder / BUCKET).mkdir()
    return program, "--quiet", "--access", KEY, "--secret", SECRET, "--port", address, "posix", folder


PROGRAMS: Mapping[str, Program] = {
    "gofakes3": Program("github.com/johannesboyne/gofakes3", ".", _in_memory),
    "versitygw": Program("github.com/versity/versitygw", "github.com/versity/versitygw/cmd/versitygw", _over_a_folder),
}


def versions(name: str, go_mod: str) -> dict[str, str]:
    """Versions of Go and of a program in its go.mod."""
    patterns = {"go": r"^go (\d+\.\d+)", name: rf"^(?:require )?\s*{re.escape(PROGRAMS[name].module)} v(\S+)"}
    found = {key: re.search(pattern, go_mod, re.MULTILINE) for key, pattern in patterns.items()}
    return {key: match[1] for key, match in found.items() if match}


def program(name: str, say: Callable[[str], None]) -> Path:
    """A server's program, built where it is missing.

    Raises:
        NoGo: it is missing and there is no Go toolchain.
        BuildFailed: a download failed several times, or the build once.
    """
    module, what = HERE / name, PROGRAMS[name]
    of, sources = versions(name, (module / "go.mod").read_text()), sha256()
    for source in sorted(module.iterdir()):
        sources.update(source.read_bytes())
    folder = cache_folder() / f"{name}-{of[name]}-{sources.hexdigest()[:8]}"
    version, packages = f"{name} {of[name]}", {name: what.package}
    return built(module, packages, folder, go_version=of["go"], stamped="", what=version, say=say) / name


@contextmanager
def serving(name: str, folder: Path, say: Callable[[str], None]) -> Iterator[Server]:
    """A server with an empty bucket on a free port of this machine, ended with the block.

    Args:
        name: of PROGRAMS.
        folder: for its log and what it keeps.
        say: takes a line of progress.

    Raises:
        NoGo, BuildFailed: there is no program.
        Ended: it ended, or did not listen in time.
    """
    (port,), kept = free_ports(1), folder / "kept"
    kept.mkdir(parents=True)
    command = PROGRAMS[name].command(program(name, say), f"{HOST}:{port}", kept)
    with running(command, folder / f"{name}.log") as process:
        process.until(lambda: answers(port))
        yield Server(f"s3://{BUCKET}", _environment(port))


def _environment(port: int) -> dict[str, str]:
    return {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://{HOST}:{port}",
        "AWS_ALLOW_HTTP": "true",
    }


@contextmanager
def known(server: Server) -> Iterator[None]:
    """Have this process and those that it starts find a server, and no other, within the block."""
    before = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    _replace(server.environment)
    try:
        yield
    finally:
        _replace(before)


def _replace(variables: Mapping[str, str]) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    os.environ.update(variables)
