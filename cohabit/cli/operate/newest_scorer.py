"""The promoted model over the newest snapshot, for commands that read a lake."""

from datetime import datetime
from typing import TYPE_CHECKING

from cohabit.config.settings import Settings
from cohabit.terminal.locations import registry_of

if TYPE_CHECKING:
    from advisor.scoring.scorer import ModelScorer

MAX_APART_S = 1800
"""Between snapshot and lake: residents of another time are not those of the lake."""


def newest_scorer(settings: Settings, at: datetime) -> tuple["ModelScorer | None", str]:
    """The model over the newest snapshot; None, and why, where there is none, or it is not of that time."""
    from advisor.cluster.snapshot import load_current
    from advisor.errors import AdvisorError
    from advisor.scoring.loaded_model import believed, open_model, scorer_over
    from models.drift.drift_status import status_of

    try:
        snapshot = load_current(settings.snapshots)
    except AdvisorError as error:
        return None, str(error)
    registry = registry_of(settings)
    bundle = registry.current()
    if bundle is None:
        return None, f"no promoted model in {registry.root}"
    if snapshot.cluster != settings.cluster:
        return None, f"snapshots in {settings.snapshots} are of cluster {snapshot.cluster}, not {settings.cluster}"
    apart_s = abs(snapshot.as_of_us / 1e6 - at.timestamp())
    if apart_s > MAX_APART_S:
        return None, (
            f"the newest snapshot in {settings.snapshots} is {apart_s / 60:,.0f} minutes from the newest minute of the "
            f"lake (limit {MAX_APART_S // 60}): run `cohabit refresh` and `cohabit features`"
        )
    model = believed(open_model(bundle, registry.trust), status_of(registry, bundle.name))
    scorer = scorer_over(snapshot, model)
    return scorer, "drift has switched to scores by load, which bound no resident" if scorer.by_load else ""
