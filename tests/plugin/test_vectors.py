"""Vectors of the Go plugin: they are what Python says today, and cover what they are for."""

import gzip
import json
from collections import Counter
from pathlib import Path

from advisor.scoring.score_table_file import read_table
from tests.plugin.vectors import FOLDER, PODS, TABLE, VECTORS, lines, write


def test_the_vectors_are_what_python_says_today(tmp_path: Path) -> None:
    write(tmp_path)

    assert (tmp_path / TABLE).read_bytes() == (FOLDER / TABLE).read_bytes()
    kept, made = (gzip.decompress((folder / VECTORS).read_bytes()) for folder in (FOLDER, tmp_path))
    assert kept == made, "run `python -m tests.plugin.vectors`, and the tests of the plugin"


def test_the_vectors_cover_every_rule() -> None:
    drawn = [json.loads(line) for line in lines()]
    owners = Counter(one["pod"]["metadata"]["ownerReferences"][0]["kind"] for one in drawn if _owned(one))
    classes = Counter(tuple(one["class"]) for one in drawn)

    assert len(drawn) == PODS
    assert min(owners[kind] for kind in ("ReplicaSet", "StatefulSet", "Job", "Node")) > 100
    assert classes.keys() == set(read_table(FOLDER / TABLE).classes)
    assert sum(bool(one["group"]) for one in drawn) > 100
    assert {points for one in drawn for points in one["points"]} == set(range(11))
    assert sum(one["pod"]["metadata"]["name"] != one["app"] for one in drawn) > PODS / 2


def _owned(one: dict[str, dict[str, dict[str, object]]]) -> bool:
    return bool(one["pod"]["metadata"]["ownerReferences"])
