"""Manifest: what a bundle says about itself. Facts at the boundary, read again when it is served."""

from typing import Annotated, Literal, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, model_validator

from models.calibration.conformal import Calibration
from models.metrics.errors_and_ranks import Estimate

FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]*$")]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Sign = Literal[-1, 0, 1]
LARGEST = 1e6
"""No bound lies so many spreads above its expectation."""


Ratio = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class AppMargin(BaseModel):
    """An app's own margin."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cluster: str
    app: str
    multiplier: Ratio
    windows: Ratio
    """Effective windows behind it."""


Tier = Literal["cold", "unseen", "started", "own"]
"""How much is known of an app, see models.bundle.margins."""


class Stretch(BaseModel):
    """How labels moved the margins of one tier on one platform."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tier: Tier
    platform: str
    log_stretch: Annotated[float, Field(ge=-2, le=2)]
    """Logarithm of the factor that multipliers are served with."""
    labels: Annotated[int, Field(ge=1)]
    """How many were followed."""


class Followed(BaseModel):
    """The labels that margins followed since the models were trained."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    until: AwareDatetime
    """End of the last window whose labels were taken in."""
    stretches: tuple[Stretch, ...]

    @model_validator(mode="after")
    def _one_each(self) -> Self:
        if len({(one.tier, one.platform) for one in self.stretches}) < len(self.stretches):
            raise ValueError("a tier has one stretch on a platform")
        return self


class EntryMargins(BaseModel):
    """How far bounds of single containers lie above expectations, see models.bundle.margins."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    level: Annotated[float, Field(gt=0, lt=1)]
    floor: Ratio
    """Added to every spread, log ratio."""
    seen: Ratio
    unseen: Ratio
    cold: Ratio
    apps: tuple[AppMargin, ...] = ()
    followed: Followed | None = None
    """None until labels were followed; see models.bundle.margin_updates."""


class EntryChoice(BaseModel):
    """What nodes are compared by, see models.forms.co_runner_choice."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    order: Literal[1, 2, 4]
    weight: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    knee: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """0 in bundles that are older than knees."""


class ModelEntry(BaseModel):
    """One model: its graphs by role, its columns in order, and how its bound was calibrated."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    files: dict[str, FileName]
    features: tuple[str, ...]
    signs: tuple[Sign, ...]
    medians: dict[str, float]
    """Takes the place of a missing value, in the unit of the column. Columns without one stay missing."""
    calibration: Calibration
    margins: EntryMargins | None = None
    """None in bundles that are older than own margins: calibration is all there is."""
    seen_share: Annotated[float, Field(ge=0, le=1)] | None = None
    """Of the base's log that the graph "familiar" starts from, where there is one."""

    choice: EntryChoice | None = None
    """None where nodes are compared by the base, as in bundles that are older than this."""

    @model_validator(mode="after")
    def _columns_agree(self) -> Self:
        if len(self.signs) != len(self.features) or not self.medians.keys() <= set(self.features):
            raise ValueError("signs must match features one to one, and medians name features")
        if not {"mean", "spread"} <= self.files.keys():
            raise ValueError("a model has a graph for its mean and one for its spread")
        own = self.calibration
        if not (0 < own.level < 1 and all(0 <= m < LARGEST for m in (own.pooled, own.hierarchical, own.node))):
            raise ValueError("multipliers of a bound are finite and not negative, its level lies between 0 and 1")
        if (self.seen_share is None) != ("familiar" not in self.files):
            raise ValueError("the graph of familiar apps and its share of the base go together")
        return self


class Sampled(BaseModel):
    """How the rows were drawn, where not all there were are learnt from; see features.training.stratified_sample."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rows_there: int
    strata: int
    max_rows: int
    """Asked for: the same number, power and seed draw the same rows again."""
    power: float
    seed: int


class Provenance(BaseModel):
    """What the models were trained on and how, so that a model card can say it and anybody can do it again."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rows: int
    apps: int
    nodes: int
    settings: dict[str, int | float | str]
    """Of the trainer, by name."""
    sampled: Sampled | None = None
    """None where the models learnt from all rows there were."""
    versions: dict[str, int] = Field(default_factory=dict)
    """Of the lake's tables that were read, as Delta Lake counts; none in bundles written before there were any."""


class Manifest(BaseModel):
    """One bundle. `sha256` is filled in when the bundle is written."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[2] = 2
    created_at: AwareDatetime
    models: dict[str, ModelEntry]
    catalogue_hash: str
    training_window: tuple[AwareDatetime, AwareDatetime]
    data_fingerprint: str
    platforms: tuple[str, ...]
    metrics: dict[str, dict[str, dict[str, Estimate]]] = Field(default_factory=dict)
    """By split, predictor (ours or a baseline) and metric."""
    provenance: Provenance | None = None
    """None in bundles written before there was any."""
    sha256: dict[FileName, Sha256] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _every_graph_has_a_digest(self) -> Self:
        named = {name for model in self.models.values() for name in model.files.values()}
        if self.sha256 and not named <= self.sha256.keys():
            raise ValueError(f"models name files that are not in the bundle: {sorted(named - self.sha256.keys())}")
        return self
