"""Issue: the export of an approved plan and its reservations, in one transaction. An edge."""

import json

from sqlalchemy import Connection

from advisor.errors import Conflict, Invalid
from advisor.placement.reservation_store import add_reservations
from advisor.plans.export import ApprovedMove, As, Step, document, evictions, migration_jobs
from advisor.plans.plan_service import Given
from advisor.plans.rules.plan_record import Proposal
from advisor.plans.rules.plan_record import Step as Planned
from advisor.plans.rules.policy import HOUR_US
from advisor.remediation.action import MOVES

RESERVED_US = HOUR_US
"""How long after the export target nodes stay reserved for replacement pods."""
JOB_TTL_S = 1800
"""How long Koordinator may take for a plan, counted from when its jobs are created."""


def given_as(form: As) -> Given:
    """Creates the export of a plan in a format, and opens its reservations if the format needs them.

    Raises:
        Invalid: when called, if a container's name is not known or none.
    """

    def given(connection: Connection, of: Proposal) -> bytes:
        if form == "plain":
            return document(of.plan.plan, form, of.approved).encode()
        moves = approved_moves(of)
        steps: list[Step] = []
        if form == "evictions":
            evicted, reservations = evictions(moves, of.plan.cluster, of.changed_us + RESERVED_US)
            add_reservations(connection, reservations)
            steps += evicted
        else:
            steps += migration_jobs(moves, JOB_TTL_S)
        return document(of.plan.plan, form, steps, [s for s in of.approved if s.kind not in MOVES]).encode()

    return given


def approved_moves(of: Proposal) -> list[ApprovedMove]:
    """The moves of a plan that were approved, in order.

    Raises:
        Invalid: the Kubernetes name of a container is unknown.
    """
    return [_approved(of, step) for step in of.approved if step.kind in MOVES]


def _approved(of: Proposal, step: Planned) -> ApprovedMove:
    who = step.who
    if who.namespace is None or who.name is None or step.target is None:
        raise Invalid(
            f"step {step.number} cannot be exported for Kubernetes: namespace and name of container {who.container} "
            "are unknown. Send them on topic placements, or export the plan as plain"
        )
    return ApprovedMove(
        step=step.number,
        round=step.round,
        container=who.container,
        namespace=who.namespace,
        name=who.name,
        app=who.app or "",
        source=step.source,
        target=step.target,
        plan=of.plan.plan,
        cpu_request_cores=who.cpu_request_cores or 0.0,
        memory_request_bytes=round(who.memory_request_bytes or 0),
    )


def must_be(document: bytes, name: str, form: str) -> None:
    """Check that the earlier export has the requested form.

    Raises:
        Conflict: it was exported before, in another one.
    """
    kept = json.loads(document)["as"]
    if kept != form:
        raise Conflict(
            f"proposal {name} was exported as {kept}; a second export as {form} could be carried out twice: export it "
            f"as {kept}"
        )
