"""Export: the same plan to the same names, in order, each step good for one pod alone, and no path from a bad name."""

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.errors import Invalid
from advisor.plans.export import ApprovedMove, As, Step, document, evictions, migration_jobs, step_name
from tests.advisor.plans.made import step

MOVE = ApprovedMove(1, 1, "u-1", "shop", "web-1", "web", "n1", "n2", "p7", "5d9f", 0.5, 1 << 30)
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def test_an_eviction_names_the_pod_and_is_good_for_its_uid_alone() -> None:
    [step], _ = evictions([MOVE], "prod", 9)

    assert step.path == "/api/v1/namespaces/shop/pods/web-1/eviction"
    assert step.body == {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "web-1", "namespace": "shop"},
        "deleteOptions": {"preconditions": {"uid": "u-1"}},
    }


def test_each_eviction_comes_with_the_reservation_that_steers_what_follows() -> None:
    [step], [reservation] = evictions([MOVE], "prod", 9)

    assert (reservation.reservation, reservation.node, reservation.expires_us) == (step.reservation, "n2", 9)
    assert (reservation.cluster, reservation.namespace, reservation.app, reservation.template_hash) == (
        "prod",
        "shop",
        "web",
        "5d9f",
    )
    assert (reservation.plan, reservation.step) == ("p7", 1)


def test_steps_are_in_the_order_of_rounds_whatever_order_they_come_in() -> None:
    moves = [replace(MOVE, step=step, round=round_) for step, round_ in ((3, 2), (2, 2), (9, 1))]

    steps, reservations = evictions(moves, "prod", 9)

    assert [step.step for step in steps] == [reservation.step for reservation in reservations] == [9, 2, 3]
    assert [job.step for job in migration_jobs(moves, 60)] == [9, 2, 3]


BAD = [
    ("namespace", "../kube-system"),
    ("namespace", "shop/pods/x"),
    ("namespace", "a.b"),
    ("namespace", ""),
    ("name", "web 1"),
    ("name", "web?dryRun"),
    ("name", "web-1/../../x"),
    ("name", "Web"),
    ("name", "web-1\n"),
    ("name", "a" * 254),
    ("target", "n2/.."),
    ("target", "-n2"),
    ("container", ""),
    ("container", "u 1"),
]


@pytest.mark.parametrize(("field", "value"), BAD)
def test_what_is_no_name_of_kubernetes_is_refused_with_its_step(field: str, value: str) -> None:
    bad = replace(MOVE, **{field: value})  # type: ignore[arg-type]
    for export in (lambda: evictions([bad], "prod", 9), lambda: migration_jobs([bad], 60)):
        with pytest.raises(Invalid, match="step 1 cannot be exported"):
            export()


@given(namespace=st.text(max_size=70), name=st.text(max_size=70))
def test_a_path_has_the_two_names_in_their_places_or_there_is_none(namespace: str, name: str) -> None:
    try:
        [step], _ = evictions([replace(MOVE, namespace=namespace, name=name)], "prod", 9)
    except Invalid:
        return
    assert step.path.split("/") == ["", "api", "v1", "namespaces", namespace, "pods", name, "eviction"]
    assert step.path.isascii()


def test_a_step_that_is_there_twice_is_refused() -> None:
    with pytest.raises(Invalid, match="is repeated"):
        evictions([MOVE, replace(MOVE, name="web-2")], "prod", 9)


def test_a_migration_job_reserves_on_the_target_before_it_evicts() -> None:
    [job] = migration_jobs([MOVE], 300)
    manifest = json.loads(json.dumps(job.manifest))
    spec = manifest["spec"]

    assert manifest["apiVersion"] == "scheduling.koordinator.sh/v1alpha1"
    assert (spec["paused"], spec["mode"], spec["ttl"]) == (False, "ReservationFirst", "300s")
    assert {"namespace": "shop", "name": "web-1", "uid": "u-1"}.items() <= spec["podRef"].items()
    reservation = spec["reservationOptions"]["template"]["spec"]
    assert (reservation["allocateOnce"], reservation["ttl"]) == (True, "300s")
    pod = reservation["template"]["spec"]
    [term] = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term == {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n2"]}]}
    assert "nodeName" not in pod
    assert pod["containers"][0]["resources"]["requests"] == {"cpu": "500m", "memory": "1073741824"}


def test_requests_that_are_not_known_are_not_told() -> None:
    [job] = migration_jobs([replace(MOVE, cpu_request_cores=0.0, memory_request_bytes=0)], 300)

    assert '"requests": {}' in json.dumps(job.manifest)


@given(plan=st.text(max_size=120), step=st.integers(0, 10**9))
def test_names_of_steps_are_labels_and_the_same_each_time(plan: str, step: int) -> None:
    name = step_name(replace(MOVE, plan=plan, step=step))

    assert LABEL.fullmatch(name)
    assert name == step_name(replace(MOVE, plan=plan, step=step, name="other", target="n9"))


@given(st.lists(st.tuples(st.text("aA1-/. ", max_size=50), st.integers(0, 99)), unique=True, max_size=20))
def test_no_two_steps_share_a_name(steps: list[tuple[str, int]]) -> None:
    assert len({step_name(replace(MOVE, plan=p, step=s)) for p, s in steps}) == len(steps)


@pytest.mark.parametrize("form", ["evictions", "migration-jobs", "plain"])
def test_a_document_says_what_it_is(form: As) -> None:
    steps: dict[As, list[Step]] = {
        "evictions": [*evictions([MOVE], "prod", 9)[0]],
        "migration-jobs": [*migration_jobs([MOVE], 60)],
        "plain": [step()],
    }
    told = json.loads(document("p7", form, steps[form]))

    assert (told["format"], told["plan"], told["as"]) == ("cohabit.export/2", "p7", form)
    assert [one["number" if form == "plain" else "step"] for one in told["steps"]] == [1]


def test_a_plan_without_steps_is_exported_as_one() -> None:
    assert evictions([], "prod", 9) == ([], [])
    assert json.loads(document("p7", "plain", []))["steps"] == []
