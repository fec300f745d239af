"""Jars and Java: what is committed is what arrives, and a stranger's bytes are refused."""

import struct
import subprocess
from pathlib import Path

import pytest

from ingest.devkafka.jars import fetch_jars, jar_paths, listed_jars
from ingest.devkafka.java import OLDEST, java, java_home
from ingest.devkafka.truststore import authorities, java_truststore
from ingest.schema.errors import IngestError


def test_every_listed_jar_is_named_after_its_coordinate() -> None:
    for jar in listed_jars():
        _, artifact, version = jar.coordinate.split(":")
        assert jar.name == f"{artifact}-{version}.jar"


def test_the_two_class_paths_are_kept_apart() -> None:
    clients = {
        jar.set: jar.coordinate for jar in listed_jars() if jar.coordinate.startswith("org.apache.kafka:kafka-clients")
    }

    assert clients == {
        "broker": "org.apache.kafka:kafka-clients:4.1.1",
        "spark": "org.apache.kafka:kafka-clients:3.9.2",
    }


def test_jars_that_are_there_are_not_fetched_again() -> None:
    calls: list[str] = []

    paths = fetch_jars(lambda done, total, name: calls.append(name))

    assert not calls
    assert paths == [*jar_paths("broker"), *jar_paths("spark")]


def test_missing_jars_are_told_with_the_command_that_fetches_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COHABIT_CACHE", str(tmp_path))

    with pytest.raises(IngestError, match=r"python -m ingest\.devkafka\.jars"):
        jar_paths("spark")


def test_java_is_new_enough_and_runs() -> None:
    answer = subprocess.run([java(), "-version"], capture_output=True, text=True, check=True)

    assert OLDEST >= 17
    assert "version" in answer.stderr
    assert (java_home() / "bin" / "java").exists()


def test_the_authorities_are_handed_over_whole() -> None:
    store = java_truststore([b"first", b"second one"])

    magic, version, count = struct.unpack(">III", store[:12])
    assert (magic, version, count) == (0xFEEDFEED, 2, 2)
    assert store.index(b"first") < store.index(b"second one")
    assert store.index(b"second one") + len(b"second one") + 20 == len(store)
    assert all(der.startswith(b"\x30") for der in authorities())
