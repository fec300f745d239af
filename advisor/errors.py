"""Errors of the advisor, one class per action a caller can take."""

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from structlog.typing import FilteringBoundLogger


class AdvisorError(Exception):
    """The advisor cannot answer as asked; the message says what to do."""


class NoSnapshot(AdvisorError):
    """There is no snapshot to score from."""

    def __init__(self, folder: Path, reason: str) -> None:
        self.folder, self.reason = folder, reason
        super().__init__(f"no usable snapshot in {folder}: {reason}; is `cohabit refresh` running and writing there?")


class VersionTaken(AdvisorError):
    """A snapshot of that version exists already; snapshots never change."""

    def __init__(self, folder: Path, version: int) -> None:
        self.folder, self.version = folder, version
        super().__init__(f"{folder} holds a snapshot of version {version}: publish under next_version(folder)")


class NoBundle(AdvisorError):
    """There is no bundle to score with."""

    def __init__(self, registry: Path) -> None:
        self.registry = registry
        super().__init__(f"no bundle is promoted in {registry}: train one, or point COHABIT_REGISTRY at one")


class NotBelieved(AdvisorError):
    """The model drifted so far that nothing is proposed or approved by it."""

    def __init__(self, bundle: str) -> None:
        self.bundle = bundle
        super().__init__(
            f"model {bundle} is not believed any more, so nothing is proposed or approved by it: `cohabit model "
            f"drift` says "
            "why; train and promote another, or go back to the one before with `cohabit model rollback`"
        )


class UnusableBundle(AdvisorError):
    """A bundle is intact, but placement cannot be scored with it."""

    def __init__(self, bundle: Path, reason: str) -> None:
        self.bundle, self.reason = bundle, reason
        super().__init__(f"bundle {bundle} cannot score placements: {reason}; roll the registry back, or train again")


class UnknownNode(AdvisorError):
    """A node that the snapshot does not hold."""

    def __init__(self, node: str) -> None:
        self.node = node
        super().__init__(f"node {node!r} is not in the snapshot: has it sent a message on topic nodes?")


class BadRequest(AdvisorError):
    """A request body that cannot be read."""

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(f"cannot read the request: {what}")


class BodyTooLarge(AdvisorError):
    """A request body beyond what is read."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        super().__init__(
            f"the request body is longer than {limit_bytes} bytes: "
            "send node names instead of whole nodes (nodeCacheCapable: true), or fewer candidates"
        )


class BodyTooSlow(AdvisorError):
    """A request whose body does not arrive in time."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        super().__init__(f"the request body did not arrive within {limit_s:g} s: send it again, all of it at once")


class RouteWithoutRole(AdvisorError):
    """A route was added without saying who may call it."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(f"route {path} declares no role: decorate its function with @allowed(...)")


class NoTable(AdvisorError):
    """There is no score table yet, or its file is not a whole one."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"no score table in {path}: {reason}; it is written some seconds after the start of serving")


class BadStoreUrl(AdvisorError):
    """An address of the store that names no database; it is not repeated, since it may hold a password."""

    def __init__(self, scheme: str) -> None:
        self.scheme = scheme
        super().__init__(
            f"COHABIT_DATABASE is no address of a store (it begins with {scheme!r}): give a file for SQLite, or "
            "postgresql://user:password@host:port/database"
        )


class StoreOutdated(AdvisorError):
    """The store lacks migrations, perhaps all of them."""

    def __init__(self, store: str, found: str, wanted: str) -> None:
        self.store, self.found, self.wanted = store, found, wanted
        at = f"is at version {found}" if found else "has not been made"
        super().__init__(
            f"the store {store} {at}, and version {wanted} is needed: run `cohabit admin database migrate`, or point "
            "COHABIT_DATABASE at another"
        )


class StoreTooOld(AdvisorError):
    """The store is of a version that no migration begins at."""

    def __init__(self, store: str, found: str, first: str) -> None:
        self.store, self.found, self.first = store, found, first
        super().__init__(
            f"the store {store} is at version {found}, and migrations begin at {first}: point COHABIT_DATABASE at an "
            f"empty "
            "database and run `cohabit admin database migrate`; read the old one with the Cohabit that wrote it"
        )


class IncompleteDump(AdvisorError):
    """Of a store that was dumped, tables are missing."""

    def __init__(self, folder: Path, missing: Sequence[str]) -> None:
        self.folder, self.missing = folder, tuple(missing)
        super().__init__(f"{folder} lacks {', '.join(missing)} of the store: restore another backup")


class StoreNotEmpty(AdvisorError):
    """A store is to be filled that holds something."""

    def __init__(self, store: str, tables: Sequence[str]) -> None:
        self.store, self.tables = store, tuple(tables)
        super().__init__(
            f"the store {store} holds {', '.join(tables)}, and nothing is ever overwritten: point COHABIT_DATABASE at "
            "an empty database or a new file"
        )


class StoreAhead(AdvisorError):
    """A newer Cohabit has migrated the store."""

    def __init__(self, store: str, found: str, wanted: str) -> None:
        self.store, self.found, self.wanted = store, found, wanted
        super().__init__(
            f"the store {store} is at version {found}, which this Cohabit does not know (its own is {wanted}): upgrade "
            "Cohabit, or restore the backup made before"
        )


class StoreUnavailable(AdvisorError):
    """The store's database does not answer, or refuses."""

    def __init__(self, store: str, reason: str) -> None:
        self.store, self.reason = store, reason
        super().__init__(
            f"the store {store} does not answer ({reason}): is it running, and is COHABIT_DATABASE its address?"
        )


class BadTokenName(AdvisorError):
    """A name that a token cannot have."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"{name[:120]!r} cannot name a token: give up to 100 letters, digits and ._@-, first of all a "
            "letter or digit"
        )


class UnknownRole(AdvisorError):
    """A role that there is not."""

    def __init__(self, role: str, roles: Sequence[str]) -> None:
        self.role, self.roles = role, tuple(roles)
        super().__init__(f"{role[:50]!r} is no role: there are {', '.join(roles)}")


class TokenExists(AdvisorError):
    """A second token of one name."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"there is, or was, a token named {name!r}, and the audit must tell them apart: choose another name, such "
            f"as {name}-2, then revoke the old one"
        )


class BadTokenTeam(AdvisorError):
    """A token of role team without a team, or of another role with one."""

    def __init__(self, role: str, team: str | None) -> None:
        self.role, self.team = role, team
        team_text = f"with team {team[:80]!r}" if team is not None else "without a team"
        super().__init__(
            f"there is no token of role {role} {team_text}: role team, and no other, is for one team (--team)"
        )


class NoToken(AdvisorError):
    """No token that is still open has this name."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"no token named {name[:120]!r} is open: `cohabit admin token list` names them all")


class IssuerUnavailable(AdvisorError):
    """The issuer of tokens does not answer, or not with keys that can be used."""

    def __init__(self, issuer: str, reason: str) -> None:
        self.issuer, self.reason = issuer, reason
        super().__init__(
            f"the keys of issuer {issuer} cannot be had ({reason}): is COHABIT_ADVISOR__OIDC_ISSUER its address, to "
            "the letter, and is it reached from here?"
        )


class BadIssuer(AdvisorError):
    """An address at which no issuer is asked for keys."""

    def __init__(self, url: str) -> None:
        self.url = url
        super().__init__(
            f"{url[:200]!r} is no address of an issuer: give https://host/path as claim `iss` of its tokens has it, "
            "without user, query or fragment (http counts on loopback alone)"
        )


class TooBusy(AdvisorError):
    """More is asked than can be answered without keeping others waiting."""

    retry_s = 5

    def __init__(self) -> None:
        super().__init__(
            f"too many wait for scores already: ask again in {self.retry_s} s, one request at a time, and name the "
            "nodes that matter"
        )


class CallerGone(AdvisorError):
    """The client has disconnected: no answer is computed."""

    def __init__(self) -> None:
        super().__init__("the caller has hung up")


class UnusableProblem(AdvisorError):
    """What is to be reassigned does not fit together."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"this cannot be optimised: {reason}")


class UnusableEvidence(AdvisorError):
    """What is to be explained does not fit together."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"this cannot be explained: {reason}")


class BadMove(AdvisorError):
    """A step of a plan that cannot be expressed in Kubernetes."""

    def __init__(self, step: int, what: str, value: str, why: str) -> None:
        self.step, self.what, self.value = step, what, value
        super().__init__(f"step {step} cannot be exported: its {what} {value[:120]!r} {why}: make the proposal anew")


class ReportTooLarge(AdvisorError):
    """More diagnoses than a file of them holds."""

    def __init__(self, victims: int, size_bytes: int, limit_bytes: int) -> None:
        self.victims, self.size_bytes, self.limit_bytes = victims, size_bytes, limit_bytes
        super().__init__(
            f"the diagnoses of {victims} victims take {size_bytes} bytes, and {limit_bytes} are read: diagnose fewer "
            "nodes at a time"
        )


class UnreadableDiagnoses(AdvisorError):
    """The file of diagnoses cannot be read."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(
            f"{path} cannot be read ({reason}): write it again with `cohabit victims --publish`, by the same version "
            "of Cohabit as serves"
        )


class UnreadableLadders(AdvisorError):
    """The file of what can be done for whom cannot be read."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(
            f"{path} cannot be read ({reason}): write it again with `cohabit plan create`, by the same version of "
            f"Cohabit "
            "as serves"
        )


class NothingDiagnosed(AdvisorError):
    """No diagnosis was run yet."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        super().__init__("nothing has been diagnosed yet: `cohabit victims --publish` writes what it finds")


class NoVictim(AdvisorError):
    """A container of which nothing wrong is known."""

    def __init__(self, container: str) -> None:
        self.container = container
        super().__init__(
            f"container {container[:253]!r} does not suffer, as far as the newest diagnoses tell: GET /v1/victims "
            "names all who do"
        )


class Contained:
    """Contain any error of a `with` block: log it, keep it in `error`, and go on after the block.

    For work that must not stop because of a fault in it: a scheduler always gets an answer. What ends a process
    (KeyboardInterrupt, SystemExit, cancellation) passes.
    """

    def __init__(self, log: FilteringBoundLogger, event: str) -> None:
        self.error: Exception | None = None
        self._log, self._event = log, event

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        if not isinstance(error, Exception):
            return False
        self.error = error
        self._log.exception(self._event, exc_info=error)
        return True
