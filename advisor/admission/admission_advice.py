"""Advice at admission: which nodes a created pod should prefer, as a patch, while kube-apiserver waits. An edge.

The pod has no uid yet. It is assumed on its best node by an id of ours, with which it is annotated.
"""

from collections import OrderedDict
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice, takewhile
from time import perf_counter
from typing import Literal, NamedTuple

import numpy as np
import structlog
from prometheus_client import Counter, Histogram

from advisor.admission.created_pod import CreatedPod, created_pod
from advisor.admission.node_room import Needs, Rooms, rooms_by_use
from advisor.admission.preference import (
    MOST_AVOIDED,
    MOST_PREFERRED,
    WOULD_ADVISE,
    Json,
    Listed,
    advice_patch,
    fits_annotations,
    preferred_count,
    preferred_terms,
    with_annotation,
)
from advisor.admission.room_file import NewestRooms
from advisor.cluster.assumed_pod_load import Booked
from advisor.cluster.pending_pod import PodClass
from advisor.errors import BadRequest, Contained
from advisor.placement.assumed_pod_sync import MAX_ADVISED, Bookings
from advisor.placement.encoded_scores import Replies
from advisor.placement.prioritizer import BUCKETS_S, Prioritizer
from advisor.remediation.pod_rules import PodRules
from ingest.schema.workload_identity import ADVICE

log = structlog.get_logger(__name__)
Mode = Literal["off", "annotate", "advise"]
LATE_S = 0.9
"""Of the second that kube-apiserver waits; later advice reaches no pod and is not counted in scores."""
MOST_EXTENDED = 16
"""Extended resources of an assumed pod that are counted; real pods request fewer."""
GROUPS, GROUP_US = 2_000, 600_000_000
"""Groups whose nodes are remembered, the oldest is forgotten first; and for how long after its first pod."""


class Given(NamedTuple):
    """What a pod gets.

    Args:
        outcome: as metric `cohabit_admission_total` counts it.
        patch: steps of a JSON Patch; empty where the pod stays as it is.
        reason: why there is no advice; empty where there is.
    """

    outcome: str
    patch: list[Json]
    reason: str = ""


@dataclass
class GroupLists:
    """Nodes by group: all members get the same ones, since kube-scheduler treats pods of equal terms alike."""

    _known: OrderedDict[str, tuple[int, Listed]] = field(default_factory=OrderedDict)

    def get(self, group: str, now_us: int) -> Listed | None:
        """Nodes that the group's first pod got; None for no group, and once that is long ago."""
        at_us, listed = self._known.get(group, (0, None))
        return listed if abs(now_us - at_us) <= GROUP_US else None

    def put(self, group: str, listed: Listed, now_us: int) -> None:
        """Remember the nodes of a group's first pod."""
        self._known.pop(group, None)
        self._known[group] = now_us, listed
        if len(self._known) > GROUPS:
            self._known.popitem(last=False)


@dataclass
class AssumedNeeds:
    """What advised pods request while they are assumed: no message counts it yet."""

    _known: OrderedDict[str, Needs] = field(default_factory=OrderedDict)
    """By id of advice, the oldest first."""

    def keep(self, advice: str, needs: Needs) -> None:
        """Remember amounts of a pod; the oldest are forgotten where bookings end by their number."""
        extended = dict(islice(needs.extended.items(), MOST_EXTENDED))
        self._known[advice] = Needs(PodRules(), needs.cores, needs.memory_bytes, extended)
        if len(self._known) > MAX_ADVISED:
            self._known.popitem(last=False)

    def on(self, node: str, bookings: Bookings, counted: Container[str]) -> list[Needs]:
        """Amounts of the pods that are assumed on a node now, but for those whose id is counted elsewhere."""
        there = (one.uid for one in bookings.on([node]) if one.uid not in counted)
        return [known for uid in there if (known := self._known.get(uid)) is not None]


@dataclass
class AdmissionAdvice:
    """Advises created pods. One event loop answers; one thread reloads.

    Args:
        prioritizer: whose table and assumed pods are used.
        newest: what nodes have left, as the refresher publishes it.
        mode: whether pods get advice, or an annotation that says which it would be.
        new_id: makes ids of advice.
        late_s: advice that took longer is dropped, seconds.
    """

    prioritizer: Prioritizer
    newest: NewestRooms
    mode: Mode
    new_id: Callable[[], str]
    late_s: float = LATE_S
    groups: GroupLists = field(default_factory=GroupLists)
    needs: AssumedNeeds = field(default_factory=AssumedNeeds)
    _rooms: Rooms | None = field(default=None, init=False)
    _outcomes: Counter = field(init=False)
    _seconds: Histogram = field(init=False)

    def __post_init__(self) -> None:
        metrics = self.prioritizer.serving.metrics
        self._outcomes = Counter(
            "cohabit_admission", "Created pods, by outcome and reason.", ["outcome", "reason"], registry=metrics
        )
        self._seconds = Histogram(
            "cohabit_admission_seconds", "Duration of admission reviews.", buckets=(*BUCKETS_S, 1.0), registry=metrics
        )
        self.prioritizer.advised = self.arrived

    def reload(self) -> None:
        """Take up what nodes have left: as published, else by the snapshot; for the reloading thread."""
        serving, found = self.prioritizer.serving, self.newest.newest()
        snapshot = None if serving.scorer is None else serving.scorer.snapshot
        if found is not None and found.cluster == serving.cluster and self._is_young(found):
            self._rooms = found
        elif snapshot is not None and (self._rooms is None or self._rooms.as_of_us != snapshot.as_of_us):
            by_use = rooms_by_use(snapshot)
            len(by_use.by_name)  # computed here, and not while a pod waits
            self._rooms = by_use

    def arrived(self) -> Mapping[str, str]:
        """Node of each pod with advice that the newest snapshot holds, by the id of its advice."""
        return {} if self._rooms is None else self._rooms.arrived

    def give(self, said: Mapping[str, object], namespace: str, *, dry_run: bool = False) -> Given:
        """Advice for a created pod, whatever goes wrong: kube-apiserver always gets an answer.

        Args:
            said: the pod's JSON.
            namespace: in which it is created.
            dry_run: whether the pod is not kept; it is then assumed nowhere.

        Returns:
            The outcome, counted.
        """
        began, given = perf_counter(), Given("failed", [], "error")
        with Contained(log, "advice failed; the pod is created without"):
            given = self._given(said, namespace, began, dry_run=dry_run)
        return self.count(given, perf_counter() - began)

    def count(self, given: Given, seconds: float = 0.0) -> Given:
        """Count an outcome."""
        self._outcomes.labels(given.outcome, given.reason).inc()
        self._seconds.observe(seconds)
        return given

    def _given(self, said: Mapping[str, object], namespace: str, began: float, *, dry_run: bool) -> Given:
        try:
            pod = created_pod(said, namespace)
        except BadRequest:
            return Given("failed", [], "unreadable")
        replies, problem = self.prioritizer.from_table.believed(), self.prioritizer.serving.problem()
        if pod.skipped or replies is None or problem:
            return Given("skipped", [], pod.skipped) if pod.skipped else Given("neutral", [], problem or "no_table")
        of, now_us = self._class_of(pod, replies), self.prioritizer.serving.now_us()
        listed = self.groups.get(pod.offer.group, now_us) or self._listed(pod, of, replies, began + self.late_s)
        late = perf_counter() - began > self.late_s
        if late or listed is None:
            return Given("late", [], "late") if late else Given("neutral", [], "no_preference")
        booked = Booked(self.new_id(), listed.best[0][0], of, now_us, group=pod.offer.group)
        advises = self.mode == "advise"
        note = (ADVICE, booked.uid) if advises else (WOULD_ADVISE, str(listed))
        terms = preferred_terms(listed, pod.own_weight)
        if not terms or not fits_annotations(said, *note):
            return Given("skipped", [], "no_space" if terms else "own_terms")
        if not dry_run:
            self._keep(booked, listed, pod.needs)
        if advises:
            return Given("advised", advice_patch(said, terms, booked.uid))
        return Given("annotated", [with_annotation(said, *note)])

    def _keep(self, booked: Booked, listed: Listed, needs: Needs) -> None:
        """Remember the nodes of a new group, and assume the pod where it is advised to go, with what it requests."""
        if booked.group and self.groups.get(booked.group, booked.at_us) is None:
            self.groups.put(booked.group, listed, booked.at_us)
        if self.mode == "advise":
            self.prioritizer.assumed.book(booked)
            self.needs.keep(booked.uid, needs)

    def _class_of(self, pod: CreatedPod, replies: Replies) -> PodClass:
        """The pod's class, or that of unknown apps until the table has its own."""
        table, pending = self.prioritizer.from_table, pod.offer.pending_pod
        of = table.class_of(pending)
        table.want(of, missing=of not in replies.row_of)
        return of if of in replies.row_of else PodClass("", pending.best_effort)

    def _listed(self, pod: CreatedPod, of: PodClass, replies: Replies, until: float) -> Listed | None:
        """Nodes in order of points, then of costs; None where all have the same points, or none accepts the pod.

        The search ends at a time of `perf_counter`, with what was found until then. Members of a group share the list,
        so that it is as long as can be.
        """
        self.prioritizer.assumed.listen()
        if of not in replies.row_of or self._rooms is None:
            return None
        rooms, rows, needs = self._rooms, np.flatnonzero(replies.table.known), pod.needs
        most = MOST_PREFERRED if pod.offer.group else preferred_count(len(replies.table.nodes))
        points = replies.points(of, rows)
        if not len(rows) or points.min() == points.max():
            return None
        order = np.lexsort((replies.costs(of, rows), -points))
        nodes = replies.table.nodes
        ranked = [(nodes[row], of_10) for row, of_10 in zip(rows[order].tolist(), points[order].tolist(), strict=True)]

        def assumed_on(node: str) -> list[Needs]:
            return self.needs.on(node, self.prioritizer.assumed.bookings, rooms.counted)

        def accepting(among: Iterable[tuple[str, int]], most: int) -> tuple[tuple[str, int], ...]:
            in_time = takewhile(lambda _: perf_counter() < until, among)
            return tuple(islice((one for one in in_time if rooms.takes(needs, one[0], assumed_on(one[0]))), most))

        best = accepting((one for one in ranked if one[1] > 0), most)
        worst = accepting((one for one in reversed(ranked) if one[1] == 0), MOST_AVOIDED)
        return Listed(best, tuple(name for name, _ in worst)) if best else None

    def _is_young(self, rooms: Rooms) -> bool:
        serving = self.prioritizer.serving
        return serving.now_us() - rooms.as_of_us <= serving.max_age_s * 1e6
