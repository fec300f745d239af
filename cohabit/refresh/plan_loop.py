"""Plan loop of `refresh`: every few minutes publish victims and draft a plan. An edge."""

from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException
from threading import Event, Thread

import structlog

from advisor.diagnosis.report_file import write_report
from advisor.errors import AdvisorError, Contained
from advisor.plans.plan_service import Actor, Desk
from advisor.plans.planner import Draft
from advisor.plans.rules.plan_record import Plan, expected
from cohabit.budgets.webhook import post
from cohabit.config.errors import CohabitError
from cohabit.plans.create import Sources, look, propose
from cohabit.plans.outcomes import conclude
from features.schema.errors import FeaturesError
from ingest.schema.errors import IngestError
from models.errors import ModelsError

log = structlog.get_logger(__name__)

KNOWN = (AdvisorError, CohabitError, IngestError, FeaturesError, ModelsError, OSError)


@dataclass(frozen=True)
class Drafting:
    """What is done every few minutes.

    Args:
        sources: what plans are made from.
        desk: where they are put.
        every_s: from the end of one to the start of the next.
        webhook: URL that gets each new plan; None sends nothing.
        request_id: makes a name for each turn, for the audit.
    """

    sources: Sources
    desk: Desk
    every_s: float
    webhook: str | None
    request_id: Callable[[], str]

    def begin(self, stop: Event) -> Thread:
        """Run in the background until `stop` is set."""
        thread = Thread(target=self._go_on, args=(stop,), name="drafting", daemon=True)
        thread.start()
        return thread

    def once(self) -> Draft:
        """Publish victims and outcomes of earlier plans, and draft a plan.

        Raises:
            AdvisorError, CohabitError, IngestError, ModelsError: there is nothing to look at, or changes are frozen.
        """
        looked = look(self.sources.lake)
        log.info("coverage of labels", looked_at=round(looked.coverage(self.desk.cluster).share, 2))
        write_report(self.sources.snapshots, looked.report(self.desk.cluster, self.desk.now_us()))
        actor = Actor("cohabit refresh", "", self.request_id())
        conclude(self.sources.lake, self.desk, actor)
        found = propose(self.sources, self.desk, actor, looked)
        if found.plan is not None and self.webhook is not None:
            Thread(target=self._send, args=(self.webhook, found.plan), name="webhook", daemon=True).start()
        return found

    def _send(self, webhook: str, plan: Plan) -> None:
        try:
            notify(webhook, plan)
        except (OSError, HTTPException, ValueError) as error:
            log.warning("the webhook did not accept a plan", plan=plan.plan, error=str(error))

    def _go_on(self, stop: Event) -> None:
        while not stop.wait(self.every_s):
            with Contained(log, "no plan this time"):  # the next time may go well
                self._try()

    def _try(self) -> None:
        try:
            found = self.once()
        except KNOWN as error:
            log.warning("no plan this time", error=str(error))
        else:
            name = found.plan.plan if found.plan else ""
            log.info("looked for victims", victims=len(found.ladders), plan=name)


def notify(url: str, plan: Plan) -> None:
    """Post a new plan to a webhook: its name and what it would save, without containers.

    Raises:
        OSError: it does not answer, or not with success.
    """
    gain, low, high = expected(plan.open_steps)
    body = {
        "plan": plan.plan,
        "cluster": plan.cluster,
        "steps": len(plan.open_steps),
        "saves_an_hour": round(gain, 4),
        "saves_an_hour_low": round(low, 4),
        "saves_an_hour_high": round(high, 4),
        "expires_us": plan.expires_us,
    }
    post(url, body)
