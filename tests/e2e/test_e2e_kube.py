"""What `make e2e-kube` reads and writes, without the programs it runs: versions, configuration, logs, verdicts."""

import base64
import json
from pathlib import Path
from urllib.request import Request, urlopen

import numpy as np
import pytest

from cohabit.config.settings import AdvisorSettings
from e2e.kube.__main__ import main
from e2e.kube.admission import MANIFEST, Creates, Followed, configuration, holds, tally
from e2e.kube.advisor import counts_in
from e2e.kube.api import Api
from e2e.kube.binaries import ETCD, KUBERNETES, MODULE, binaries, versions
from e2e.kube.control_plane import PAGE, extender_of, scheduler_config, signing_key
from e2e.kube.drawn import drawn
from e2e.kube.errors import NoGo
from e2e.kube.moves import Moved, on_target, planned, steered
from e2e.kube.plugin import MODULE as PLUGIN
from e2e.kube.plugin import PAGE as PLUGIN_PAGE
from e2e.kube.plugin import VERSIONS as PLUGIN_VERSIONS
from e2e.kube.plugin import plugin_config
from e2e.kube.processes import answers, free_ports
from e2e.kube.scheduler_log import SchedulerLog, scores_in, verdict, waits_s
from e2e.kube.targets import TARGET, as_created, extender
from e2e.kube.workloads import Changed, Kubelet, Labels, Metadata, Pod, Spec, Status, budget_body, deployment_body
from tests.advisor.clusters import snapshot

BOUND = (
    b'I1120 20:04:53.%06d    4711 schedule_one.go:481] "Successfully bound pod to node" pod="default/%b" '
    b'node="%b" evaluatedNodes=20 feasibleNodes=20'
)
REFUSED = (
    b"I1120 20:04:53.000001    4711 schedule_one.go:1007] \"Failed to run extender's priority function. No score given "
    b'by this extender." err="Post \\"http://127.0.0.1:1/extender/prioritize\\": dial tcp 127.0.0.1:1: connect: '
    b'connection refused" pod="default/pod-00000" extender="http://127.0.0.1:1/extender"'
)


def scored(node: str, plugins: tuple[int, int], points: int, total: int) -> list[bytes]:
    """What kube-scheduler tells of one node at verbosity 10."""
    of, at = 'pod="default/p"', f'node="{node}" score'
    return [
        *(f'"Plugin scored node for pod" {of} plugin="{i}" {at}={score}'.encode() for i, score in enumerate(plugins)),
        f'"Extender scored node for pod" {of} extender="http://x" {at}={points}'.encode(),
        f'"Calculated node\'s final score for pod" {of} {at}={total}'.encode(),
    ]


def test_the_module_names_the_versions_that_are_built() -> None:
    of = versions((MODULE / "go.mod").read_text())

    assert of.keys() == {"go", ETCD, KUBERNETES}
    sums = (MODULE / "go.sum").read_text()
    assert f"{KUBERNETES} v{of[KUBERNETES]} h1:" in sums
    assert f"{ETCD} v{of[ETCD]} h1:" in sums


def test_every_staging_module_is_replaced_by_the_release_of_the_same_number() -> None:
    text = (MODULE / "go.mod").read_text()
    patch = versions(text)[KUBERNETES].removeprefix("1.")

    replaced = [line.split() for line in text[text.index("replace (") :].splitlines() if "=>" in line]

    assert replaced
    assert all(to == name and version == f"v0.{patch}" for name, _, to, version in replaced)


def test_without_a_go_toolchain_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COHABIT_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(NoGo, match=r"install Go \d+\.\d+ or newer"):
        binaries(lambda _: None)


def test_the_scheduler_gets_the_extender_that_the_page_advises_at_the_advisors_port() -> None:
    advised = scheduler_config(PAGE.read_text(), 4711, Path("kubeconfig"))["extenders"]

    sample = extender_of(PAGE.read_text())
    assert advised == [{**sample, "urlPrefix": "http://127.0.0.1:4711/extender"}]
    assert scheduler_config(PAGE.read_text(), None, Path("kubeconfig"))["extenders"] == []


def test_the_plugin_gets_the_arguments_that_its_page_advises() -> None:
    made = plugin_config(PLUGIN_PAGE.read_text(), Path("/run/table"), 4711, Path("kubeconfig"))

    [profile] = made["profiles"]
    [config] = profile["pluginConfig"]
    assert profile["plugins"] == {"multiPoint": {"enabled": [{"name": "Cohabit", "weight": 1}]}}
    assert config["args"] == {
        "tableFile": "/run/table",
        "advisor": "http://127.0.0.1:4711",
        "maxTableAgeSeconds": int(AdvisorSettings().max_feature_age_s),
    }
    assert made["extenders"] == []


def test_the_plugin_is_built_of_the_same_kubernetes() -> None:
    ours, theirs = (versions((module / "go.mod").read_text())[KUBERNETES] for module in (PLUGIN, MODULE))

    assert ours == theirs
    assert ours.startswith(f"{next(iter(PLUGIN_VERSIONS))}.")


@pytest.mark.parametrize("kubernetes", PLUGIN_VERSIONS)
def test_the_plugin_is_pinned_for_each_kubernetes(kubernetes: str) -> None:
    modfile = PLUGIN / PLUGIN_VERSIONS[kubernetes]
    of = versions(modfile.read_text())[KUBERNETES]

    assert of.startswith(f"{kubernetes}.")
    assert f"{KUBERNETES} v{of} h1:" in modfile.with_suffix(".sum").read_text()
    assert modfile.read_text().count(f" v0.{of.removeprefix('1.')}\n") > 30, "staging modules of another version"
    assert f"Kubernetes {of}" in PLUGIN_PAGE.read_text()


def test_the_plugin_stays_thin() -> None:
    sources = [path for path in PLUGIN.rglob("*.go") if not path.name.endswith("_test.go")]
    lines = (line.strip() for path in sources for line in path.read_text().splitlines())

    assert sum(bool(line) and not line.startswith("//") for line in lines) <= 600


def test_to_steer_the_scheduler_filters_and_looks_at_all_nodes() -> None:
    of_all = scheduler_config(PAGE.read_text(), 4711, Path("kubeconfig"), "filter, all nodes")
    sampled = scheduler_config(PAGE.read_text(), 4711, Path("kubeconfig"), "filter")

    assert of_all["extenders"] == sampled["extenders"]
    assert extender_of(PAGE.read_text(), "filter") == {**extender_of(PAGE.read_text()), "filterVerb": "filter"}
    assert (of_all["percentageOfNodesToScore"], "percentageOfNodesToScore" in sampled) == (100, False)


def pod(uid: str, node: str, app: str = "web") -> Pod:
    return Pod(Metadata(f"{app}-{uid}", uid, labels=Labels(app, "5d9f")), Spec(node), Status("Running"))


def test_a_drawn_plan_moves_each_pod_once_to_another_node_in_rounds() -> None:
    pods = [pod(f"u{i}", f"n{i % 3}") for i in range(20)]

    moves = planned(pods, ["n0", "n1", "n2"], 8, "p", np.random.default_rng(0))

    assert [move.step for move in moves] == list(range(1, 9))
    assert [move.round for move in moves] == [1, 1, 2, 2, 3, 3, 4, 4]
    assert len({move.container for move in moves}) == 8
    assert all(move.source != move.target and move.template_hash == "5d9f" for move in moves)


def test_a_pod_counts_for_one_move_of_its_app_to_its_node() -> None:
    moves = planned([pod(f"u{i}", "n0") for i in range(3)], ["n0", "n1"], 3, "p", np.random.default_rng(0))

    assert on_target(moves, [pod("a", "n1"), pod("b", "n1"), pod("c", "n0"), pod("d", "n1", "db")]) == 2
    assert on_target(moves, [pod(name, "n1") for name in "abcde"]) == 3


@pytest.mark.parametrize(
    ("shares", "breaches", "well"), [((1.0, 0.4), 0, True), ((0.98, 1.0), 0, False), ((1.0, 1.0), 1, False)]
)
def test_a_plan_is_steered_when_all_nodes_are_offered_and_no_budget_is_breached(
    shares: tuple[float, float], breaches: int, *, well: bool
) -> None:
    plans = [Moved("filter", 100, int(100 * share), 0, 0, breaches, 1.0) for share in shares]

    assert steered(plans) == well


def test_of_pods_that_come_and_go_the_fewest_that_were_ready_at_once_are_known(tmp_path: Path) -> None:
    kubelet = Kubelet(Api(0, "", tmp_path))
    pending = Pod(Metadata("web-c", "c", labels=Labels("web")), Spec("n1"), Status("Pending"))
    for uid in ("a", "b"):
        kubelet.take(Changed("ADDED", pod(uid, "n0")))
    kubelet.watch_from_now()

    kubelet.take(Changed("DELETED", pod("a", "n0")))
    assert kubelet.take(Changed("ADDED", pending)), "it has a node and is to be made ready"
    kubelet.take(Changed("MODIFIED", pod("c", "n1")))

    assert kubelet.fewest == {"web": 1}
    assert (kubelet.ready(), kubelet.ready({"a"}), kubelet.ready({"b"})) == (2, 2, 0)


def test_a_deployment_is_covered_by_its_budget() -> None:
    deployment, budget = (json.loads(body)["spec"] for body in (deployment_body("web", 5), budget_body("web", 2)))

    assert budget["selector"] == deployment["selector"] == {"matchLabels": {"app": "web"}}
    assert deployment["template"]["metadata"]["labels"] == {"app": "web"}
    assert (deployment["replicas"], budget["maxUnavailable"]) == (5, 2)


def test_a_signing_key_is_one_sequence_of_a_number_a_secret_and_a_curve() -> None:
    begin, body, end = signing_key().splitlines()
    content = base64.b64decode(body)

    assert (begin, end) == ("-----BEGIN EC PRIVATE KEY-----", "-----END EC PRIVATE KEY-----")
    assert (content[0], content[1]) == (0x30, len(content) - 2)
    assert signing_key() != signing_key()


def test_a_log_that_grows_is_read_on_by_whole_lines(tmp_path: Path) -> None:
    log = SchedulerLog(tmp_path / "kube-scheduler.log")
    first, second, third = (BOUND % (i * 250_000, b"pod-%d" % i, b"n%d" % i) for i in range(3))
    log.path.write_bytes(first + b"\n" + REFUSED + b"\n" + second[:40])

    assert log.read() == 1
    with log.path.open("ab") as file:
        file.write(second[40:] + b"\n" + third + b"\n")
    assert log.read() == 3
    assert log.node_of == {"pod-0": "n0", "pod-1": "n1", "pod-2": "n2"}
    assert log.lost == {"connection refused": 1}
    assert log.pods_per_s() == pytest.approx(4.0)


def test_a_total_is_the_sum_of_plugins_plus_weight_times_ten_times_ours() -> None:
    lines = [*scored("n1", (60, 30), 2, 110), *scored("n2", (40, 30), 7, 140), *scored("n3", (1, 1), 9, 99)]

    judged = verdict(scores_in(lines), {"p": "n2"}, weight=1)

    assert (judged.pods, judged.highest, judged.ours, judged.changed) == (1, 1, 0, 1)
    assert (judged.nodes, judged.astray) == (3, 1)


def test_a_wait_is_from_the_last_score_of_plugins_to_the_first_of_ours() -> None:
    at = ["11.000", "11.001", "11.005", "11.006"]
    lines = [f"I1120 20:04:{at[i]} 1 x.go:1] ".encode() + line for i, line in enumerate(scored("n1", (60, 30), 2, 110))]
    ours_again = lines[2].replace(b"n1", b"n2").replace(b"11.005", b"11.009")

    assert waits_s([*lines[:3], ours_again, lines[3]]) == [pytest.approx(0.004)]


def test_answers_are_counted_by_source_and_reason() -> None:
    text = """
# TYPE cohabit_score_requests counter
cohabit_score_requests_total{reason="",source="table"} 5.0
cohabit_score_requests_total{reason="new_class",source="nearest"} 2.0
cohabit_prioritize_duration_seconds_count 7.0
cohabit_prioritize_duration_seconds_sum 0.014
"""

    counts = counts_in(text)

    assert counts.sources == {"table": 5, "nearest new_class": 2}
    assert str(counts) == "table 5, nearest new_class 2; 2.00 ms each"


def test_free_ports_differ_and_nobody_listens_there() -> None:
    ports = free_ports(3)

    assert len(set(ports)) == 3
    assert not any(answers(port) for port in ports)


def test_the_command_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])

    said = capsys.readouterr()
    assert not said.err
    assert {"--nodes", "--pods", "--sampled", "--moves", "--only"} <= set(said.out.split())


def test_the_extender_of_drawn_clusters_passes_the_target_where_it_is_offered() -> None:
    def passed(names: list[str]) -> list[str]:
        asked = {"Pod": {"metadata": {"annotations": {TARGET: "n1"}}}, "NodeNames": names}
        request = Request(f"http://127.0.0.1:{port}/extender/filter", json.dumps(asked).encode())
        with urlopen(request, timeout=10) as reply:  # noqa: S310 - loopback
            return list(json.load(reply)["NodeNames"])

    with extender() as port:
        assert passed(["n0", "n1"]) == ["n1"]
        assert passed(["n0"]) == []


def test_a_drawn_pod_is_created_on_its_node_or_for_its_target() -> None:
    pod = drawn(snapshot(1, residents=(1, 2)), 1).pods[0]

    there, anew = as_created(pod, "a", node="n3"), as_created(pod, "b", target="n1")

    assert there["spec"]["nodeName"] == "n3"
    assert "nodeName" not in anew["spec"]
    assert anew["metadata"]["annotations"] == {TARGET: "n1"}
    assert anew["spec"]["tolerations"] == pod["spec"]["tolerations"]


def advised_pod(node: str, *names: str, annotated: bool = False) -> dict[str, object]:
    """A pod on a node, advised to go to others: by terms, or by the annotation alone."""
    if annotated:
        notes = {"cohabit.io/would-advise": " ".join([*(f"{name}={9 - i}" for i, name in enumerate(names)), "!n9"])}
        return {"metadata": {"annotations": notes}, "spec": {"nodeName": node}}
    own = {"weight": 100, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}
    avoid = {
        "weight": 5,
        "preference": {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["x"]}]},
    }
    fields = [{"key": "metadata.name", "operator": "In", "values": [name]} for name in names]
    terms = [{"weight": 9 - i, "preference": {"matchFields": [field]}} for i, field in enumerate(fields)]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [own, *terms, avoid]}}
    return {"metadata": {"annotations": {"cohabit.io/advice": "id"}}, "spec": {"nodeName": node, "affinity": affinity}}


@pytest.mark.parametrize("annotated", [False, True])
def test_pods_are_counted_on_their_best_node_on_a_listed_one_and_elsewhere(annotated: bool) -> None:  # noqa: FBT001
    pods = [advised_pod(node, "n1", "n2", annotated=annotated) for node in ("n1", "n2", "n2", "n3", "")]
    plain = {"metadata": {}, "spec": {"nodeName": "n1"}}

    assert tally("m", json.dumps({"items": [*pods, plain]}).encode()) == Followed("m", 5, 4, 3, 1)


def test_the_webhook_of_the_manifests_is_registered_on_loopback(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes(b"PEM")

    [webhook] = json.loads(configuration(MANIFEST.read_text(), 9, tmp_path / "ca.crt"))["webhooks"]

    assert webhook["clientConfig"] == {"url": "https://localhost:9/admission", "caBundle": "UEVN"}
    assert webhook["failurePolicy"] == "Ignore"


@pytest.mark.parametrize(
    ("advised", "creates", "held"),
    [
        (Followed("advise", 100, 100, 70, 25), Creates(0, [1.0] * 100), True),
        (Followed("advise", 100, 100, 69, 25), Creates(0, [1.0] * 100), False),
        (Followed("advise", 100, 100, 70, 24), Creates(0, [1.0] * 100), False),
        (Followed("advise", 100, 0, 0, 0), Creates(0, [1.0] * 100), False),
        (Followed("advise", 100, 100, 70, 25), Creates(1, [1.0] * 99), False),
        (Followed("advise", 100, 100, 70, 25), Creates(0, [1.2] * 100), False),
        (Followed("advise", 100, 100, 70, 25), Creates(0, []), False),
    ],
    ids=str,
)
def test_the_gates_of_advice_at_admission(advised: Followed, creates: Creates, held: bool) -> None:  # noqa: FBT001
    assert holds(advised, creates) is held
