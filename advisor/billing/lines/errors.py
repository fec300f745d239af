"""Errors of pricing, one class per action a caller can take."""

from collections.abc import Sequence

from advisor.errors import AdvisorError


class NothingToShareBy(AdvisorError):
    """An amount cannot be shared out: no line has a weight."""

    def __init__(self, total: int) -> None:
        self.total = total
        super().__init__(f"{total} micro-units cannot be shared out by weights of nothing: bill them to `unattributed`")


class BadWeights(AdvisorError):
    """Weights that no amount can be shared out by."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"these weights share nothing out: {reason}")


class UnknownCurrency(AdvisorError):
    """A currency that ISO 4217 does not list."""

    def __init__(self, code: str, instead: str) -> None:
        self.code, self.instead = code, instead
        other = f"write {instead}" if instead else "give three capital letters such as USD, EUR or CNY"
        super().__init__(f"{code[:20]!r} is no currency of ISO 4217 that is paid in: {other}")


class BadQuantities(AdvisorError):
    """Requests or uses that nothing can be billed by."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"no quantity can be told: {reason}")


class BadPriceBook(AdvisorError):
    """A version of the price book that cannot be billed by."""

    def __init__(self, version: str, reasons: Sequence[str]) -> None:
        self.version, self.reasons = version, tuple(reasons)
        super().__init__(f"price book {version!r} cannot be used: {'; '.join(reasons)}")


class BadBookText(AdvisorError):
    """A text that is no version of the price book."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"this is no price book: {reason}")


class NotApproved(AdvisorError):
    """A version of the price book that a second person has not signed."""

    def __init__(self, version: str, proposed_by: str, approved_by: str | None) -> None:
        self.version, self.proposed_by, self.approved_by = version, proposed_by, approved_by
        signed = "nobody has approved it" if approved_by is None else f"{approved_by} both proposed and approved it"
        super().__init__(f"price book {version!r} may not be billed by: {signed}; let another person approve it")


class AlreadyStarted(AdvisorError):
    """A version of the price book would change what has been, or is being, billed by."""

    def __init__(self, version: str, start: str, now: str) -> None:
        self.version, self.start, self.now = version, start, now
        super().__init__(
            f"price book {version!r} applies from {start}, and it is {now}: what has begun is never changed. Let a new "
            "version begin with a later hour"
        )


class Overlap(AdvisorError):
    """Two versions of the price book would apply at once."""

    def __init__(self, version: str, other: str, start: str) -> None:
        self.version, self.other, self.start = version, other, start
        super().__init__(
            f"price books {version!r} and {other!r} would both apply from {start}: let one begin later, under "
            "another name; what was proposed is taken back by `cohabit bill withdraw-book`"
        )


class NoPrice(AdvisorError):
    """An hour that no version of the price book covers."""

    def __init__(self, hour: str, versions: Sequence[str]) -> None:
        self.hour, self.versions = hour, tuple(versions)
        super().__init__(
            f"no price book covers {hour}: there are {', '.join(versions) or 'none'}; propose a version that begins "
            "there (`cohabit bill propose-book`), and let another person approve it"
        )


class BadTransfers(AdvisorError):
    """Claims of rebates that do not fit together."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"these rebates cannot be settled: {reason}")


class TooManyPlayers(AdvisorError):
    """More players than are tried in all combinations."""

    def __init__(self, players: int, limit: int) -> None:
        self.players, self.limit = players, limit
        super().__init__(f"{players} players are too many for all combinations (limit {limit}): sample their orders")


class UnreadableLine(AdvisorError):
    """A line of another format, or none."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"this is no line that can be read: {reason}; was it written by a newer Cohabit?")


class NoCost(AdvisorError):
    """Hours in which the cost of the pool is unknown."""

    def __init__(self, pool: str, hours: Sequence[str]) -> None:
        self.pool, self.hours = pool, tuple(hours)
        more = f" and {len(hours) - 1:,} more hours" if len(hours) > 1 else ""
        super().__init__(
            f"pool {pool!r} has no cost in the hour from {hours[0]}{more}: tell cost_micros_per_hour of its nodes, or "
            "import a bill of it with `cohabit bill import`, then `cohabit bill meter` these hours again"
        )


class SeveralPools(AdvisorError):
    """Rows of more pools than one were to be billed at once."""

    def __init__(self, pools: Sequence[str]) -> None:
        self.pools = tuple(pools)
        super().__init__(f"rows of pools {', '.join(pools[:5])}: bill each pool on its own")


class BadLineFile(AdvisorError):
    """A file of lines that is not what it was when it was written."""

    def __init__(self, path: str, reason: str) -> None:
        self.path, self.reason = path, reason
        name = path.rpartition("/")[2]  # HTTP clients must not see local folder names
        super().__init__(
            f"file of lines {name} cannot be relied on ({reason}): take it from a backup, or make it again"
        )
