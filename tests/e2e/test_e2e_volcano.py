"""What `make e2e-volcano` reads and writes, without the programs it runs: versions, configuration, replies."""

import json
from pathlib import Path

import numpy as np
import pytest
import yaml

from e2e.kube.control_plane import PAGE
from e2e.kube.errors import NoGo
from e2e.volcano.__main__ import configuration, golden, main
from e2e.volcano.clients import MODULE, MODULES, VERSIONS, Reply, Understood, built, versions
from e2e.volcano.replies import BROKEN, OFFERED, TWINS, holds, names, request, twin_agrees
from e2e.volcano.twin import NotDecoded, Passed


@pytest.mark.parametrize("release", VERSIONS)
def test_the_module_names_the_versions_that_are_built(release: str) -> None:
    modfile = MODULE / VERSIONS[release][0]
    of = versions(modfile.read_text())

    assert of.keys() == {"go", *MODULES}
    assert of["volcano"].startswith(f"{release}.")
    sums = modfile.with_suffix(".sum").read_text()
    assert all(f"{module} v{of[name]} h1:" in sums for name, module in MODULES.items())


@pytest.mark.parametrize("release", VERSIONS)
def test_each_release_is_built_by_a_file_of_its_own_tag(release: str) -> None:
    tag = VERSIONS[release][1]
    files = {path.name: path.read_text().splitlines()[0] for path in (MODULE / "clients").glob("version_*.go")}

    named = f"version_{release.replace('.', '_')}.go"
    assert files[named] == f"//go:build {tag}" if tag else files[named].startswith("//go:build !")
    assert len(files) == len(VERSIONS)


def test_a_later_release_has_files_of_its_own_for_what_it_sends_otherwise() -> None:
    assert golden("volcano-nothing.request.json", "1.14") == golden("volcano-nothing.request.json", "1.10")
    assert golden("volcano-released-tasks.request.json", "1.14").name == "volcano-1.14-released-tasks.request.json"


def test_without_a_go_toolchain_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(NoGo, match=r"install Go \d+\.\d+ or newer.*Volcano's extender plugin"):
        built("1.14", lambda _: None)


def test_volcano_gets_the_configuration_that_the_page_advises_at_the_advisors_port() -> None:
    text = configuration(PAGE.read_text(), 4711)

    arguments = yaml.safe_load(text)["tiers"][1]["plugins"][-1]["arguments"]
    assert arguments["extender.urlPrefix"] == "http://127.0.0.1:4711/volcano"
    assert text.replace(":4711", ":8081") in PAGE.read_text()


def test_offered_names_are_nodes_and_what_no_node_is_called() -> None:
    rng = np.random.default_rng(0)
    offered = [name for _ in range(50) for name in names(rng, ["n0", "n1"])]

    assert {"n0", "n1", ""} <= set(offered)
    assert any('"' in name for name in offered)
    for client, key in (("kube", "NodeNames"), ("volcano", "nodes"), ("filter", "NodeNames")):
        assert len(json.loads(request(client, offered, "web"))[key]) == len(offered)
    assert len(json.loads(request("filter-nodes", offered, "web"))["Nodes"]["items"]) == len(offered)


def decoded(client: str, text: str) -> object:
    try:
        return TWINS[client](text.encode(), OFFERED)
    except NotDecoded:
        return None


def test_the_twin_reads_what_go_reads_and_refuses_what_go_refuses() -> None:
    """As the real clients did with these replies, which `make e2e-volcano` asks them again."""
    read = {text: found for text in BROKEN["kube"] if (found := decoded("kube", text)) is not None}
    added = {text: found for text in BROKEN["volcano"] if (found := decoded("volcano", text)) is not None}
    named = [found for text in BROKEN["filter"] if isinstance(found := decoded("filter", text), Passed)]
    whole = [found for text in BROKEN["filter-nodes"] if isinstance(found := decoded("filter-nodes", text), Passed)]

    assert list(read.values()) == [[("a", 7)], [("a", 2)], [("", 0), ("", 0)], [("a", 7)], []]
    assert list(added.values()) == [{}, {"b": 2.0, "a": 0.0}, {"": 0.5}]
    assert named[0] == Passed(["a"], {"b": "full"}, {"c": "gone"})
    assert [list(one.nodes) for one in named] == [["a"], ["a"], ["a", "a"], [], ["", "b"], [], []]
    assert [list(one.nodes) for one in whole] == [["a", "stranger"], [], ["a"], [], [""]]


def test_a_client_must_get_every_name_it_offered_within_bounds() -> None:
    def kube(*hosts: tuple[str, int], failed: bool = False) -> bool:
        return holds("kube", ["a", "b", "a"], Understood(None, hosts, failed))

    assert kube(("a", 1), ("b", 10), ("a", 1))
    assert not kube(("a", 1), ("b", 10))
    assert not kube(("a", 1), ("b", 11), ("a", 1))
    assert not kube(failed=True)
    assert holds("volcano", ["a", "", "a"], Understood({"a": 100.0}, None, failed=False))
    assert not holds("volcano", ["a", "b"], Understood({"a": 0.0}, None, failed=False))


def test_the_twin_is_held_against_what_a_client_understood() -> None:
    reply = Reply("kube", ["a"], b'[{"Host":"a","Score":7}]')

    assert twin_agrees(reply, Understood(None, [("a", 7)], failed=False))
    assert not twin_agrees(reply, Understood(None, [("a", 8)], failed=False))
    assert not twin_agrees(reply, Understood(None, None, failed=True))


def test_a_filter_must_let_pass_or_refuse_every_node_and_not_refuse_all() -> None:
    def filtered(left: list[str], refused: dict[str, str], unresolvable: dict[str, str] | None = None) -> bool:
        said = Understood(None, None, failed=False, passed=Passed(left, refused, unresolvable or {}))
        return holds("filter", ["a", "b", "a"], said)

    assert filtered(["a", "b", "a"], {})
    assert filtered(["b"], {"a": "full"})
    assert not filtered([], {"a": "full", "b": "full"})
    assert not filtered(["b"], {})
    assert not filtered(["a", "b", "a"], {"stranger": "full"})
    assert not filtered(["b"], {"a": "full"}, {"a": "full"})
    assert not holds("filter", ["a"], Understood(None, None, failed=True))


def test_the_command_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])

    said = capsys.readouterr()
    assert not said.err
    assert {"--nodes", "--pods", "--replies", "--golden", "--volcano"} <= set(said.out.split())
