"""Verdict: whether a challenger may take a champion's place, check by check, as it is kept in the registry. Facts."""

from typing import Annotated, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, model_validator

Finite = Annotated[float, Field(allow_inf_nan=False)]


class Range(BaseModel):
    """A figure with its 95 % interval."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    value: Finite
    low: Finite
    high: Finite


class Check(BaseModel):
    """One gate: how the two do, and how much worse the challenger is."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    challenger: Finite
    champion: Finite
    worse: Range
    """Challenger's loss minus champion's on the same rows: above zero the challenger is worse."""
    passed: bool


class Verdict(BaseModel):
    """What came of judging a challenger. `refusals` are sentences; none means that it passed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: int = 1
    challenger: str
    contents: str = ""
    """Fingerprint of the challenger's bundle: what is there by promotion must be what was judged."""
    champion: str | None
    """Name of the bundle that was trained, without what followed labels since; None where nothing was current."""
    judged_at: AwareDatetime
    since: AwareDatetime | None = None
    until: AwareDatetime | None = None
    """Ends of the first and the last window judged; None where no label came after both were trained."""
    labels: int = 0
    groups: int = 0
    """Apps on one node on one day: what is independent of the rest."""
    checks: tuple[Check, ...] = ()
    refusals: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether the challenger may be promoted in the champion's place."""
        return not self.refusals

    @model_validator(mode="after")
    def _a_failed_check_refuses(self) -> Self:
        if not self.refusals and not all(check.passed for check in self.checks):
            raise ValueError("a check that was not passed refuses the challenger")
        return self
