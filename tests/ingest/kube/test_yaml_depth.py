"""YAML depth: what nests more deeply than any configuration does is refused, whichever way it is written."""

from pathlib import Path

import pytest
from yaml import YAMLError

from ingest.kube.list_watch import core_api
from ingest.kube.yaml_depth import MAX_DEPTH, refuse_deep
from ingest.schema.errors import IngestError

OPENERS = {"sequences": ("[", "]"), "mappings": ("{a: ", "}"), "lines": ("- ", "")}


@pytest.mark.parametrize(("opened", "closed"), OPENERS.values(), ids=OPENERS)
def test_as_many_levels_as_are_allowed_are_read_and_one_more_is_refused(opened: str, closed: str) -> None:
    refuse_deep(f"{opened * MAX_DEPTH}1{closed * MAX_DEPTH}".encode())

    with pytest.raises(YAMLError, match="levels deep"):
        refuse_deep(opened.encode() * (MAX_DEPTH + 1))


def test_what_is_closed_again_is_not_deep() -> None:
    refuse_deep(b"a: [" + b"[1], {b: [2]}, " * 1000 + b"]")


def test_each_file_that_a_client_would_read_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "good").write_text("apiVersion: v1\nkind: Config\n")
    (tmp_path / "deep").write_text("users: " + "[" * 2000)
    both = f"{tmp_path / 'good'}:{tmp_path / 'deep'}"
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", both)

    for named in (tmp_path / "deep", None):
        with pytest.raises(IngestError, match="levels deep"):
            core_api(named, None, in_cluster=False)
