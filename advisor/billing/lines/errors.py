"""Errors of pricing, one class per action a caller can take."""

from collections.abc import Sequence

from advisor.errors import AdvisorError


class NothingToShareBy(AdvisorError):
    """An amount cannot be apportioned: no charge record has a weight."""

    def __init__(self, total: int) -> None:
        self.total = total
        super().__init__(f"{total} micro-units cannot be apportioned, all weights are 0: bill them to `unattributed`")


class BadWeights(AdvisorError):
    """Weights by which no amount can be apportioned."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"invalid apportionment weights: {reason}")


class UnknownCurrency(AdvisorError):
    """A currency that ISO 4217 does not list."""

    def __init__(self, code: str, instead: str) -> None:
        self.code, self.instead = code, instead
        other = f"write {instead}" if instead else "give three capital letters such as USD, EUR or CNY"
        super().__init__(f"{code[:20]!r} is not an ISO 4217 payment currency: {other}")


class BadQuantities(AdvisorError):
    """Requests or uses that give no billed quantity."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"cannot compute the billed quantity: {reason}")


class BadPriceBook(AdvisorError):
    """A version of the price book that is not usable for billing."""

    def __init__(self, version: str, reasons: Sequence[str]) -> None:
        self.version, self.reasons = version, tuple(reasons)
        super().__init__(f"invalid price book {version!r}: {'; '.join(reasons)}")


class BadBookText(AdvisorError):
    """A text that is not a version of the price book."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"the price book cannot be parsed: {reason}")


class NotApproved(AdvisorError):
    """A version of the price book without approval by a second person."""

    def __init__(self, version: str, proposed_by: str, approved_by: str | None) -> None:
        self.version, self.proposed_by, self.approved_by = version, proposed_by, approved_by
        signed = "it is not approved" if approved_by is None else f"{approved_by} both proposed and approved it"
        super().__init__(f"price book {version!r} cannot be used for billing: {signed}; let another person approve it")


class AlreadyStarted(AdvisorError):
    """A version of the price book would change prices that are already in force."""

    def __init__(self, version: str, start: str, now: str) -> None:
        self.version, self.start, self.now = version, start, now
        super().__init__(
            f"price book {version!r} applies from {start}, and it is {now}: a version in force is immutable. Propose "
            "a version that begins with a later hour"
        )


class Overlap(AdvisorError):
    """Two versions of the price book would apply at once."""

    def __init__(self, version: str, other: str, start: str) -> None:
        self.version, self.other, self.start = version, other, start
        super().__init__(
            f"price books {version!r} and {other!r} would both apply from {start}: propose a later start under another "
            "name, and withdraw the other version with `cohabit bill withdraw-book`"
        )


class NoPrice(AdvisorError):
    """An hour that no version of the price book covers."""

    def __init__(self, hour: str, versions: Sequence[str]) -> None:
        self.hour, self.versions = hour, tuple(versions)
        super().__init__(
            f"no price book covers {hour} (versions: {', '.join(versions) or 'none'}): propose a version that begins "
            "there (`cohabit bill propose-book`), and let another person approve it"
        )


class BadTransfers(AdvisorError):
    """Claims of rebates that are inconsistent."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"the interference adjustments are inconsistent: {reason}")


class TooManyPlayers(AdvisorError):
    """More players than the limit for exact attribution over all combinations."""

    def __init__(self, players: int, limit: int) -> None:
        self.players, self.limit = players, limit
        super().__init__(f"{players} players exceed the limit of exact attribution ({limit}): sample their orders")


class UnreadableLine(AdvisorError):
    """A charge record of another format, or none."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"a charge record cannot be read: {reason}; upgrade Cohabit if a newer version wrote it")


class NoCost(AdvisorError):
    """Hours in which the cost of the pool is unknown."""

    def __init__(self, pool: str, hours: Sequence[str]) -> None:
        self.pool, self.hours = pool, tuple(hours)
        more = f" and {len(hours) - 1:,} more hours" if len(hours) > 1 else ""
        super().__init__(
            f"pool {pool!r} has no cost in the hour from {hours[0]}{more}: send cost_micros_per_hour of its nodes, or "
            "import its bill with `cohabit bill import`, then run `cohabit bill meter` for these hours again"
        )


class SeveralPools(AdvisorError):
    """Rows of more than one pool in one call."""

    def __init__(self, pools: Sequence[str]) -> None:
        self.pools = tuple(pools)
        super().__init__(f"rows of several pools ({', '.join(pools[:5])}): bill each pool separately")


class BadLineFile(AdvisorError):
    """A charge file that is missing or was changed after it was written."""

    def __init__(self, path: str, reason: str) -> None:
        self.path, self.reason = path, reason
        name = path.rpartition("/")[2]  # HTTP clients must not see local folder names
        super().__init__(
            f"charge file {name} is damaged ({reason}): restore it from a backup, or draft the month again"
        )
