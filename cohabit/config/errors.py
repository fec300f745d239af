"""Errors of the command line and the long-running processes, one class per action a caller can take."""

import errno
import os
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from pathlib import Path


class CohabitError(Exception):
    """A command cannot continue; the message says how to mend that."""


class BadSettings(CohabitError):
    """A COHABIT_* variable that does not fit; the message names it."""


class StreamExists(CohabitError):
    """The output folder of a stream already contains one."""

    def __init__(self, folder: Path, topics: Sequence[str]) -> None:
        self.folder, self.topics = folder, tuple(topics)
        super().__init__(
            f"{folder} already contains {', '.join(f'{topic}.log' for topic in topics)}: name another folder, or "
            "remove those files; runs are never appended"
        )


class NoChampion(CohabitError):
    """No bundle is in production."""

    def __init__(self, registry: Path) -> None:
        self.registry = registry
        super().__init__(f"{registry} has no champion: name a bundle of `cohabit model list`, or promote one")


class NothingToExplain(CohabitError):
    """No training row is of the container asked for."""

    def __init__(self, subject: Mapping[str, str | None], looked_at: int) -> None:
        self.subject, self.looked_at = dict(subject), looked_at
        asked = ", ".join(f"{name} {value!r}" for name, value in subject.items() if value is not None)
        super().__init__(
            f"none of {looked_at:,} training rows is of {asked or 'any container'}: rows are of containers with a "
            f"label, "
            "see `cohabit features`; `cohabit victims` names containers"
        )


class NotReproducible(CohabitError):
    """A bundle cannot be trained again to the byte."""

    def __init__(self, directory: Path, reason: str) -> None:
        self.directory, self.reason = directory, reason
        super().__init__(
            f"bundle {directory.name} cannot be reproduced: {reason}; name the lake that it was trained on by --lake, "
            f"and "
            "keep its labels, which `cohabit features` writes again from later data"
        )


class NothingToShadow(CohabitError):
    """The champion or the snapshot to compare a challenger with is missing."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"{reason}: run `cohabit model train` for a model, `cohabit refresh` for a snapshot")


class NothingServed(CohabitError):
    """No feature vector was kept."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        super().__init__(
            f"the feature log {folder} is empty: run `cohabit serve` with COHABIT_ADVISOR__FEATURE_LOG_SHARE above 0 "
            f"until "
            "it has scored some requests"
        )


class UnreadableServed(CohabitError):
    """A file of the feature log cannot be read."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"{path} is not a feature log ({reason}): remove it if another version wrote it")


class NothingAdvised(CohabitError):
    """The decision log is empty."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        super().__init__(
            f"the decision log {folder} is empty: run `cohabit serve` with COHABIT_ADVISOR__HOLDOUT_SHARE above 0 "
            "until schedulers have sent requests, or name the folder with --log"
        )


class NoHoldout(CohabitError):
    """The decision log has no holdout."""

    def __init__(self, folder: Path, lines: int) -> None:
        self.folder, self.lines = folder, lines
        super().__init__(
            f"the decision log {folder} has {lines:,} decisions but no holdout to compare with: run `cohabit serve` "
            "with COHABIT_ADVISOR__HOLDOUT_SHARE=0.05 for some days, then retry"
        )


class UnreadableAdvised(CohabitError):
    """A file of decisions cannot be read."""

    def __init__(self, folder: Path, reason: str) -> None:
        self.folder, self.reason = folder, reason
        super().__init__(f"a line of the decision log {folder} cannot be read ({reason}): remove its file")


class NothingMeasured(CohabitError):
    """The lake has no labels at all."""

    def __init__(self, root: Path) -> None:
        self.root = root
        super().__init__(
            f"the lake {root} has no labels: run `cohabit ingest` and `cohabit features`, or name another lake"
        )


class StaleSnapshot(CohabitError):
    """The snapshot and the labels are of different times."""

    def __init__(self, folder: Path, snapshot: datetime, labels: datetime) -> None:
        self.folder, self.snapshot, self.labels = folder, snapshot, labels
        super().__init__(
            f"the newest snapshot in {folder} ({snapshot:%Y-%m-%d %H:%M} UTC) and the newest labels "
            f"({labels:%Y-%m-%d %H:%M} UTC) are too far apart for a plan: run `cohabit refresh` and `cohabit "
            "features`, then retry"
        )


class OldSnapshot(CohabitError):
    """The newest snapshot is older than the limit."""

    def __init__(self, folder: Path, age_s: float, limit_s: float) -> None:
        self.folder, self.age_s, self.limit_s = folder, age_s, limit_s
        super().__init__(
            f"the newest snapshot in {folder} is {age_s / 3600:,.1f} hours old (limit {limit_s / 3600:g}): check that "
            "`cohabit refresh` runs, or raise COHABIT_PLANS__MAX_SNAPSHOT_AGE_HOURS, as for simulated clusters"
        )


class SnapshotAhead(CohabitError):
    """The newest snapshot lies in the future, so its age is unknown."""

    def __init__(self, folder: Path, ahead_s: float) -> None:
        self.folder, self.ahead_s = folder, ahead_s
        super().__init__(
            f"the newest snapshot in {folder} is {ahead_s / 60:,.0f} minutes ahead of this machine's clock: check the "
            "clocks of metrics senders and brokers, then run `cohabit refresh` again"
        )


class OtherCluster(CohabitError):
    """The snapshots are of another cluster than the settings."""

    def __init__(self, folder: Path, found: str, wanted: str) -> None:
        self.folder, self.found, self.wanted = folder, found, wanted
        super().__init__(
            f"the snapshots in {folder} are of cluster {found!r}, but COHABIT_CLUSTER is {wanted!r}: correct "
            "COHABIT_CLUSTER or COHABIT_SNAPSHOTS"
        )


class NothingKept(CohabitError):
    """The saved inputs of a plan no longer exist."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        super().__init__(
            f"the saved inputs {folder} are missing or damaged: inputs are saved for the newest plans only"
        )


class LostInputs(CohabitError):
    """The inputs of charge records are missing, or were changed."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"billing input {path} is damaged: {reason}; restore it from a backup")


class NoSuchLine(CohabitError):
    """No charge record has this reference."""

    def __init__(self, reference: str, reason: str) -> None:
        self.reference, self.reason = reference, reason
        super().__init__(f"no charge record {reference[:80]!r}: {reason}")


class NoSuchAccount(CohabitError):
    """An account has no charge records in a month."""

    def __init__(self, account: str, period: str, known: Sequence[str]) -> None:
        self.account, self.period, self.known = account, period, tuple(known)
        there = ", ".join(name for name in known if not name.startswith("pool:"))
        super().__init__(f"account {account[:80]!r} has no charges in {period}; billed accounts: {there[:500]}")


class UnknownForm(CohabitError):
    """The suffix of a file names no supported format."""

    def __init__(self, path: Path, suffixes: Sequence[str]) -> None:
        self.path, self.suffixes = path, tuple(suffixes)
        super().__init__(f"{path} has no suffix of a supported format: use one of {', '.join(suffixes)}")


class BadPriceBookFile(CohabitError):
    """A file that is not a version of a price book."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"{path}: {reason}; `cohabit bill propose-book` without a file prints an example")


class NothingThen(CohabitError):
    """The lake has labels, but none of that time."""

    def __init__(self, root: Path, at: datetime, newest: datetime) -> None:
        self.root, self.at, self.newest = root, at, newest
        super().__init__(
            f"the lake {root} has no labels of the 25 minutes before {at:%Y-%m-%dT%H:%M} UTC: the newest window ends "
            f"at {newest:%Y-%m-%dT%H:%M}; run `cohabit features`, or name another time"
        )


class MinutesGone(CohabitError):
    """The lake has labels of a time, but not the minutes that they were computed from."""

    def __init__(self, root: Path, at: datetime) -> None:
        self.root, self.at = root, at
        super().__init__(
            f"the lake {root} has labels of the 25 minutes before {at:%Y-%m-%dT%H:%M} UTC, but no rows of "
            "node_state, so victims are unknown: run `cohabit features`, or name another time"
        )


class NothingLabelled(CohabitError):
    """The lake has no labels for the outcomes of decisions."""

    def __init__(self, root: Path) -> None:
        self.root = root
        super().__init__(
            f"the lake {root} has no labels since the first decision: run `cohabit ingest` and "
            "`cohabit features`, or name another lake"
        )


class StreamEnded(CohabitError):
    """A streaming job failed."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"the streaming job failed: {reason.strip().splitlines()[0][:500]}: start it again, it unfreezes at its "
            "checkpoint; if it fails again at once, move the checkpoint folder away to start over"
        )


class NoStream(CohabitError):
    """The input folder contains no stream."""

    def __init__(self, folder: Path, topics: Sequence[str]) -> None:
        self.folder, self.topics = folder, tuple(topics)
        names = ", ".join(f"{topic}.log" for topic in topics)
        super().__init__(
            f"{folder} contains none of {names}: create a stream with `cohabit dev simulate {folder}`, or write a "
            "topic to such a file with kafka-console-consumer"
        )


class BadTopic(CohabitError):
    """A foreign topic is not written as NAME=FORMAT."""

    def __init__(self, entry: str, formats: Sequence[str], why: str = "not a topic with its format") -> None:
        self.entry, self.formats = entry, tuple(formats)
        super().__init__(
            f"{entry!r}: {why}: write NAME=FORMAT, as in telegraf=telegraf-json; formats: {', '.join(formats)}"
        )


class StudyFailed(CohabitError):
    """A part of a backtest failed."""

    def __init__(self, part: str, reason: str) -> None:
        self.part, self.reason = part, reason
        super().__init__(
            f"{part}: {reason}; if the training data are too few, raise --history-hours or --history-nodes"
        )


class UnusableLaw(CohabitError):
    """A file that defines no interference law."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(
            f"{path} cannot drive a backtest: {reason}; --law reads a CSV of victim, aggressor, slowdown and "
            "optionally platform, one row per measured pair; --alone reads a CSV of workload and numbers"
        )


class NoLake(CohabitError):
    """The lake to maintain does not exist."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        super().__init__(
            f"no lake in {folder!r}: name an existing one with --lake or COHABIT_LAKE; `cohabit ingest` creates one"
        )


class EmptyLake(CohabitError):
    """The lake has no usage to compute features from."""

    def __init__(self, root: Path) -> None:
        self.root = root
        super().__init__(f"the lake {root} has no usage: run `cohabit ingest` first, or name another lake")


def _unlistened(first: int, last: int, reason: str) -> str:
    """The ports that cannot be opened, and the reason; for a port in use only that."""
    if first != last:
        return f"no port from {first} to {last} can be opened ({reason})"
    in_use = reason == os.strerror(errno.EADDRINUSE)
    return f"port {first} is in use" if in_use else f"port {first} cannot be opened ({reason})"


class NoFreePort(CohabitError):
    """No port of a range is free."""

    def __init__(self, first: int, last: int, reason: str) -> None:
        self.first, self.last, self.reason = first, last, reason
        super().__init__(
            f"{_unlistened(first, last, reason)}: stop the process that uses it, choose another port with --port, "
            "--scheduler-port, COHABIT_ADVISOR__PORT or COHABIT_ADVISOR__SCHEDULER_PORT, or use 0 for any free port"
        )


class UnusableCertificates(CohabitError):
    """The extender API cannot use TLS with the given files."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"COHABIT_ADVISOR__SCHEDULER_CERTIFICATE, _KEY or _CLIENT_CA cannot be used ({reason}): give PEM files, "
            "with the key of the certificate"
        )


class OpenToOthers(CohabitError):
    """A listener without access control would be reached by other machines."""

    def __init__(self, host: str) -> None:
        self.host = host
        super().__init__(
            f"COHABIT_ADVISOR__HOST={host} is reachable from other machines without authentication: set "
            "COHABIT_ADVISOR__AUTH=token, or leave the host at 127.0.0.1"
        )


class UnusablePath(CohabitError):
    """The system refused a file or folder."""

    def __init__(self, refusal: OSError) -> None:
        self.path, self.reason = refusal.filename, refusal.strerror
        where = refusal.filename or "a file"
        super().__init__(f"{where}: {refusal.strerror}; check the path, its permissions and free disk space")


class NoSuchCluster(CohabitError):
    """A stream without any record of the requested cluster."""

    def __init__(self, cluster: str, seen: Collection[str]) -> None:
        self.cluster, self.seen = cluster, seen
        there = ", ".join(sorted(seen)) or "none"
        super().__init__(f"no record of cluster {cluster!r}; clusters seen: {there}. Set --cluster or COHABIT_CLUSTER")


class NothingToAccept(CohabitError):
    """A topic that is not another one than was ingested."""

    def __init__(self, topic: str, why: str) -> None:
        self.topic, self.why = topic, why
        super().__init__(f"topic {topic} cannot be accepted: {why}; `cohabit doctor ingest` shows each topic")


class BadOption(CohabitError):
    """An invalid or missing option; the message names the valid values."""


class UnusableApiServer(CohabitError):
    """The API server cannot be queried with the given options."""

    def __init__(self, what: str, why: str) -> None:
        self.what, self.why = what, why
        super().__init__(f"cannot query the Kubernetes API: {what[:200]!r}: {why}")


class SearchMissing(CohabitError):
    """A plan was drafted by the whole-cluster search, which is not installed here."""

    def __init__(self) -> None:
        super().__init__("the plan was computed with numba, which is not installed here: install the extra optimise")


class AlreadyBegun(CohabitError):
    """A month has begun, and its scarcity was not published."""

    def __init__(self, period: str) -> None:
        self.period = period
        super().__init__(
            f"{period} has begun, and scarcity must be published before a month begins: publish a later month; this "
            "one is billed without scarcity"
        )


class OtherCurrencyOfBill(CohabitError):
    """A bill is in another currency than the price book that apportions it."""

    def __init__(self, bill: str, currency: str, version: str, of_book: str) -> None:
        super().__init__(
            f"bill {bill!r} is in {currency}, but price book {version!r} is in {of_book}: propose a price book in "
            f"{currency}, or convert the bill to {of_book} before its import"
        )


class NothingMetered(CohabitError):
    """No pool was metered in the weeks from which scarcity is forecast."""

    def __init__(self, cluster: str, since: datetime) -> None:
        self.cluster, self.since = cluster, since
        super().__init__(
            f"cluster {cluster} has no metered hours since {since:%Y-%m-%d %H:00} UTC to forecast scarcity from: run "
            "`cohabit bill meter`, and check COHABIT_CLUSTER"
        )


class OtherBill(CohabitError):
    """A bill of that name was imported with other content."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"bill {name!r} was already imported with other content, and imported bills are immutable: import the "
            "difference under another name"
        )


class SameBill(CohabitError):
    """A bill that is another one, row for row."""

    def __init__(self, bill: str, other: str) -> None:
        self.bill, self.other = bill, other
        super().__init__(
            f"bill {bill!r} has the same rows as the imported bill {other!r}, so it was not imported: its costs would "
            "count twice; if both are owed, put them into one file"
        )


class MixedBill(CohabitError):
    """A bill that would make the cost of a pool and hour one of several currencies."""

    def __init__(self, name: str, pool: str, hour: datetime, currencies: Sequence[str]) -> None:
        self.name, self.pool, self.hour, self.currencies = name, pool, hour, tuple(currencies)
        super().__init__(
            f"bill {name!r} was not imported: the cost of pool {pool!r} in the hour from {hour:%Y-%m-%d %H:%M} UTC "
            f"would be in {' and '.join(currencies)}, and currencies are not converted; use one currency in the "
            f"whole bill"
        )


class BillTooLarge(CohabitError):
    """A file larger than the limit of a bill."""

    def __init__(self, path: Path, size_bytes: int, limit_bytes: int) -> None:
        self.path, self.size_bytes, self.limit_bytes = path, size_bytes, limit_bytes
        super().__init__(f"{path} has {size_bytes:,} bytes (limit {limit_bytes:,}): export only pools, or split it")


class NotText(CohabitError):
    """A file that is not CSV."""

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(f"{path} is not UTF-8 text: export the bill as uncompressed CSV")


class UntoldAlerts(CohabitError):
    """A webhook did not accept some budget alerts; the next run sends them again."""

    def __init__(self, failed: Mapping[str, str]) -> None:
        self.failed = dict(failed)
        failures = "; ".join(f"{team}: {why}" for team, why in self.failed.items())
        super().__init__(
            f"COHABIT_BUDGETS__WEBHOOK did not accept {len(self.failed)} budget alerts ({failures}); the next "
            "`cohabit bill budgets --alert` sends them again"
        )


class OtherCurrency(CohabitError):
    """A price book that is previewed is in another currency than the month is billed in."""

    def __init__(self, version: str, currency: str, period: str, billed_in: str) -> None:
        self.version, self.currency, self.period, self.billed_in = version, currency, period, billed_in
        super().__init__(
            f"price book {version!r} is in {currency}, but {period} is billed in {billed_in}: preview it with currency "
            f"= {billed_in!r}; only the ratios of its prices matter"
        )


class NotEmpty(CohabitError):
    """The output folder is not empty."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        super().__init__(f"{folder} is not empty, and its files would be overwritten: name an empty or new folder")


class NotOver(CohabitError):
    """Some of the hours to meter as a whole have not ended."""

    def __init__(self, missing: int) -> None:
        self.missing = missing
        super().__init__(
            f"{missing} of these hours have not ended, so none was metered: an hour has ended once later usage is "
            "ingested, or after a day; check the lag of `cohabit ingest`, then retry"
        )


class NoBackup(CohabitError):
    """A folder without a complete backup."""

    def __init__(self, folder: Path, reason: str) -> None:
        self.folder = folder
        super().__init__(
            f"{folder} is not a complete backup ({reason}): name a folder that `cohabit admin backup make` of this "
            f"version "
            "wrote; restore others with the version that wrote them"
        )


class DamagedBackup(CohabitError):
    """Files of a backup are missing or were changed."""

    def __init__(self, folder: Path, wrong: Sequence[str]) -> None:
        self.folder, self.wrong = folder, tuple(wrong)
        super().__init__(
            f"{len(wrong)} files of the backup {folder} are missing or were changed ({', '.join(wrong[:3])}): "
            "restore another backup"
        )


class LinkInside(CohabitError):
    """A folder to back up contains a symbolic link."""

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(
            f"{path} is a symbolic link, which a backup does not include: replace it by its target, or remove it"
        )


class NeverWhole(CohabitError):
    """A lake that changes faster than it is copied."""

    def __init__(self, lake: Path, tries: int) -> None:
        self.lake = lake
        super().__init__(
            f"files of the lake {lake} were deleted during each of {tries} attempts to copy it: back up while "
            "`cohabit lake compact` is not running"
        )
