"""Errors of the command line and the long-running processes, one class per action a caller can take."""

import errno
import os
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from pathlib import Path


class CohabitError(Exception):
    """A command cannot go on; the message says what to do."""


class BadSettings(CohabitError):
    """A COHABIT_* variable that does not fit; the message names it."""


class StreamExists(CohabitError):
    """A folder that is to get a stream holds one already."""

    def __init__(self, folder: Path, topics: Sequence[str]) -> None:
        self.folder, self.topics = folder, tuple(topics)
        super().__init__(
            f"{folder} already holds {', '.join(f'{topic}.log' for topic in topics)}: name another folder, or remove "
            "those files; a second run is never appended to a first"
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
    """There is nothing to compare a challenger with."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"{reason}: `cohabit model train` makes a model current, `cohabit refresh` makes a snapshot")


class NothingServed(CohabitError):
    """No feature vector was kept."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        super().__init__(
            f"{folder} holds no served features: run `cohabit serve` with COHABIT_ADVISOR__FEATURE_LOG_SHARE above 0, "
            f"and "
            "let it score some requests"
        )


class UnreadableServed(CohabitError):
    """A file of served features cannot be read."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"{path} is not a log of served features ({reason}): remove it if another version wrote it")


class NothingAdvised(CohabitError):
    """No decision was written down."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        super().__init__(
            f"{folder} holds no decisions: run `cohabit serve` with COHABIT_ADVISOR__HOLDOUT_SHARE above 0 and let "
            "schedulers ask it, or name the folder with --log"
        )


class NoHoldout(CohabitError):
    """The decision log has no holdout."""

    def __init__(self, folder: Path, lines: int) -> None:
        self.folder, self.lines = folder, lines
        super().__init__(
            f"{folder} holds {lines:,} decisions and no holdout, so there is nothing to compare with: run "
            "`cohabit serve` with COHABIT_ADVISOR__HOLDOUT_SHARE=0.05 for some days, then again"
        )


class UnreadableAdvised(CohabitError):
    """A file of decisions cannot be read."""

    def __init__(self, folder: Path, reason: str) -> None:
        self.folder, self.reason = folder, reason
        super().__init__(f"{folder} holds a line that is no decision ({reason}): remove the file that has it")


class NothingMeasured(CohabitError):
    """The lake holds no labels at all."""

    def __init__(self, root: Path) -> None:
        self.root = root
        super().__init__(
            f"the lake {root} holds no labels: run `cohabit ingest` and `cohabit features`, or name another lake"
        )


class StaleSnapshot(CohabitError):
    """The snapshot and the labels are of different times."""

    def __init__(self, folder: Path, snapshot: datetime, labels: datetime) -> None:
        self.folder, self.snapshot, self.labels = folder, snapshot, labels
        super().__init__(
            f"the newest snapshot in {folder} is of {snapshot:%Y-%m-%d %H:%M}, the newest labels are of "
            f"{labels:%Y-%m-%d %H:%M} UTC, too far apart to propose anything: run `cohabit refresh` and "
            "`cohabit features`"
        )


class OldSnapshot(CohabitError):
    """Where everybody was is known, but that is long ago."""

    def __init__(self, folder: Path, age_s: float, limit_s: float) -> None:
        self.folder, self.age_s, self.limit_s = folder, age_s, limit_s
        super().__init__(
            f"the newest snapshot in {folder} is {age_s / 3600:,.1f} hours old, more than {limit_s / 3600:g}: is "
            "`cohabit refresh` running? COHABIT_PLANS__MAX_SNAPSHOT_AGE_HOURS allows older ones, as for simulated "
            "clusters"
        )


class SnapshotAhead(CohabitError):
    """The newest snapshot lies in the future, so its age is unknown."""

    def __init__(self, folder: Path, ahead_s: float) -> None:
        self.folder, self.ahead_s = folder, ahead_s
        super().__init__(
            f"the newest snapshot in {folder} is {ahead_s / 60:,.0f} minutes ahead of this machine's clock: compare "
            "that with the clocks of who sends metrics and of the brokers, and run `cohabit refresh` again"
        )


class OtherCluster(CohabitError):
    """The snapshots are of another cluster than the settings."""

    def __init__(self, folder: Path, found: str, wanted: str) -> None:
        self.folder, self.found, self.wanted = folder, found, wanted
        super().__init__(
            f"the snapshots in {folder} are of cluster {found!r}, COHABIT_CLUSTER is {wanted!r}: set one of them right"
        )


class NothingKept(CohabitError):
    """What a plan was made from is not kept any more."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        super().__init__(
            f"{folder} is not there or damaged: what a plan was made from is kept for the newest plans only"
        )


class LostInputs(CohabitError):
    """What lines were made of is gone, or was changed."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"{path}: {reason}; what bills were made of has to be kept: restore it from a backup")


class NoSuchLine(CohabitError):
    """Nothing that was billed is called so."""

    def __init__(self, reference: str, reason: str) -> None:
        self.reference, self.reason = reference, reason
        super().__init__(f"there is no line {reference[:80]!r}: {reason}")


class NoSuchAccount(CohabitError):
    """Nothing was billed to an account in a month."""

    def __init__(self, account: str, period: str, known: Sequence[str]) -> None:
        self.account, self.period, self.known = account, period, tuple(known)
        there = ", ".join(name for name in known if not name.startswith("pool:"))
        super().__init__(f"nothing was billed to {account[:80]!r} in {period}; there are {there[:500]}")


class UnknownForm(CohabitError):
    """A file's ending says no form that can be written."""

    def __init__(self, path: Path, suffixes: Sequence[str]) -> None:
        self.path, self.suffixes = path, tuple(suffixes)
        super().__init__(f"{path} could be of any form: let its name end in {', '.join(suffixes)}")


class BadPriceBookFile(CohabitError):
    """A file that is no version of a price book."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"{path}: {reason}; `cohabit bill propose-book` without a file prints a whole one")


class NothingThen(CohabitError):
    """The lake holds labels, but none of that time."""

    def __init__(self, root: Path, at: datetime, newest: datetime) -> None:
        self.root, self.at, self.newest = root, at, newest
        super().__init__(
            f"the lake {root} holds no labels of the 25 minutes before {at:%Y-%m-%dT%H:%M} UTC: the newest window ends "
            f"at {newest:%Y-%m-%dT%H:%M}; run `cohabit features`, or name another time"
        )


class MinutesGone(CohabitError):
    """The lake holds labels of a time, but not the minutes that they were made from."""

    def __init__(self, root: Path, at: datetime) -> None:
        self.root, self.at = root, at
        super().__init__(
            f"the lake {root} holds labels of the 25 minutes before {at:%Y-%m-%dT%H:%M} UTC, but no rows of "
            "node_state, so victims are unknown: run `cohabit features`, or name another time"
        )


class NothingLabelled(CohabitError):
    """The lake holds no labels to take outcomes from."""

    def __init__(self, root: Path) -> None:
        self.root = root
        super().__init__(
            f"the lake {root} holds no labels of the time since the first decision: run `cohabit ingest` and "
            "`cohabit features`, or name another lake"
        )


class StreamEnded(CohabitError):
    """A streaming job failed."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"the streaming job ended: {reason.strip().splitlines()[0][:500]}: start it again, it goes on where "
            "it was; if it ends again at once, look at that message, or move its checkpoint folder aside to begin anew"
        )


class NoStream(CohabitError):
    """A folder that is to be read holds no stream."""

    def __init__(self, folder: Path, topics: Sequence[str]) -> None:
        self.folder, self.topics = folder, tuple(topics)
        names = ", ".join(f"{topic}.log" for topic in topics)
        super().__init__(
            f"{folder} holds none of {names}: make a stream with `cohabit dev simulate {folder}`, or print a topic "
            "into such a file with kafka-console-consumer"
        )


class BadTopic(CohabitError):
    """A foreign topic is not written as NAME=FORMAT."""

    def __init__(self, entry: str, formats: Sequence[str], why: str = "it is no topic with its format") -> None:
        self.entry, self.formats = entry, tuple(formats)
        super().__init__(
            f"{entry!r}: {why}: write NAME=FORMAT, as in telegraf=telegraf-json; formats are {', '.join(formats)}"
        )


class StudyFailed(CohabitError):
    """A part of a backtest could not be done."""

    def __init__(self, part: str, reason: str) -> None:
        self.part, self.reason = part, reason
        super().__init__(
            f"{part}: {reason}; where there is too little to learn from, give --history-hours or --history-nodes more"
        )


class UnusableLaw(CohabitError):
    """A file that no law can be made of."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(
            f"{path} cannot drive a backtest: {reason}; a law is a CSV of victim, aggressor, slowdown and perhaps "
            "platform, one row a measured pair; what was measured alone a CSV of workload and numbers"
        )


class NoLake(CohabitError):
    """A lake that should be looked after is not there."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        super().__init__(
            f"there is no lake in {folder!r}: name an existing one with --lake or COHABIT_LAKE; "
            "`cohabit ingest` makes one"
        )


class EmptyLake(CohabitError):
    """The lake holds no usage to compute features of."""

    def __init__(self, root: Path) -> None:
        self.root = root
        super().__init__(f"the lake {root} holds no usage: run `cohabit ingest` first, or name another lake")


def _unlistened(first: int, last: int, reason: str) -> str:
    """Which ports nothing can listen on, and why; of one that is in use just that."""
    if first != last:
        return f"no port from {first} to {last} can be listened on ({reason})"
    in_use = reason == os.strerror(errno.EADDRINUSE)
    return f"port {first} is in use" if in_use else f"port {first} cannot be listened on ({reason})"


class NoFreePort(CohabitError):
    """No port of a range is free."""

    def __init__(self, first: int, last: int, reason: str) -> None:
        self.first, self.last, self.reason = first, last, reason
        super().__init__(
            f"{_unlistened(first, last, reason)}: end what holds it, choose another with "
            "--port, --scheduler-port or COHABIT_ADVISOR__PORT, COHABIT_ADVISOR__SCHEDULER_PORT, or give 0 for any"
        )


class UnusableCertificates(CohabitError):
    """The listener for schedulers cannot speak TLS with the files it was given."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"COHABIT_ADVISOR__SCHEDULER_CERTIFICATE, _KEY or _CLIENT_CA cannot be used ({reason}): give PEM files, "
            "the key belonging to the certificate"
        )


class OpenToOthers(CohabitError):
    """A listener without access control would be reached by other machines."""

    def __init__(self, host: str) -> None:
        self.host = host
        super().__init__(
            f"COHABIT_ADVISOR__HOST={host} is reached by others than this machine's users: set "
            "COHABIT_ADVISOR__AUTH=token, or leave the host at 127.0.0.1"
        )


class UnusablePath(CohabitError):
    """The system refused a file or folder."""

    def __init__(self, refusal: OSError) -> None:
        self.path, self.reason = refusal.filename, refusal.strerror
        where = refusal.filename or "a file"
        super().__init__(f"{where}: {refusal.strerror}; check the path, who may write there, and free space")


class NoSuchCluster(CohabitError):
    """A stream without any record of the cluster that was asked for."""

    def __init__(self, cluster: str, seen: Collection[str]) -> None:
        self.cluster, self.seen = cluster, seen
        there = ", ".join(sorted(seen)) or "no cluster at all"
        super().__init__(f"no record of cluster {cluster!r}; seen: {there}. Name it with --cluster or COHABIT_CLUSTER")


class BadOption(CohabitError):
    """An option, or what is missing of them, that does not fit; the message says what would."""


class UnusableApiServer(CohabitError):
    """An API server cannot be asked with what was given."""

    def __init__(self, what: str, why: str) -> None:
        self.what, self.why = what, why
        super().__init__(f"Kubernetes' API cannot be asked: {what[:200]!r}: {why}")


class SearchMissing(CohabitError):
    """A plan was drafted with the search of the whole cluster, and that is not installed here."""

    def __init__(self) -> None:
        super().__init__(
            "the plan was searched for with numba, which is not installed here: install the extra optimise"
        )


class AlreadyBegun(CohabitError):
    """Nothing was published of a month, and it has begun."""

    def __init__(self, period: str) -> None:
        self.period = period
        super().__init__(
            f"{period} has begun, and how scarce its hours are has to be said before: publish a later month; this one "
            "is billed without scarcity"
        )


class OtherCurrencyOfBill(CohabitError):
    """A bill is in another currency than the price book that shares it out."""

    def __init__(self, bill: str, currency: str, version: str, of_book: str) -> None:
        super().__init__(
            f"bill {bill!r} is in {currency}, and price book {version!r} shares it out in {of_book}: propose a price "
            f"book in {currency}, or turn the bill into {of_book} before it is imported"
        )


class NothingMetered(CohabitError):
    """No pool was metered in the weeks that scarcity is foreseen from."""

    def __init__(self, cluster: str, since: datetime) -> None:
        self.cluster, self.since = cluster, since
        super().__init__(
            f"nothing of cluster {cluster} was metered since {since:%Y-%m-%d %H:00} UTC, and how scarce hours will be "
            "is foreseen from that: run `cohabit bill meter`, and see that COHABIT_CLUSTER names yours"
        )


class OtherBill(CohabitError):
    """A bill of that name was imported, and it said something else."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"a bill {name!r} was imported before, and this one says something else: what was imported is never "
            "changed. Import the difference under another name"
        )


class SameBill(CohabitError):
    """A bill that is another one, row for row."""

    def __init__(self, bill: str, other: str) -> None:
        self.bill, self.other = bill, other
        super().__init__(
            f"bill {bill!r} is row for row bill {other!r}, which was imported before: its costs would count twice, so "
            "nothing was imported; were both really owed, put them into one file"
        )


class MixedBill(CohabitError):
    """A bill that would make the cost of a pool and hour one of several currencies."""

    def __init__(self, name: str, pool: str, hour: datetime, currencies: Sequence[str]) -> None:
        self.name, self.pool, self.hour, self.currencies = name, pool, hour, tuple(currencies)
        super().__init__(
            f"with bill {name!r} pool {pool!r} would cost {' and '.join(currencies)} in the hour from "
            f"{hour:%Y-%m-%d %H:%M} UTC: nothing is converted, and nothing was imported; use one currency in the "
            f"whole bill"
        )


class BillTooLarge(CohabitError):
    """A file that is no bill, by its size."""

    def __init__(self, path: Path, size_bytes: int, limit_bytes: int) -> None:
        self.path, self.size_bytes, self.limit_bytes = path, size_bytes, limit_bytes
        super().__init__(f"{path} has {size_bytes:,} bytes (limit {limit_bytes:,}): export pools alone, or cut it up")


class NotText(CohabitError):
    """A file that is not CSV."""

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(f"{path} is not text in UTF-8: export the bill as CSV, uncompressed")


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
            f"price book {version!r} is in {currency} and {period} is billed in {billed_in}, so there is nothing to "
            f"compare: preview it with currency = {billed_in!r}, what matters is how its prices stand to each other"
        )


class NotEmpty(CohabitError):
    """A folder is to be filled that holds something."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        super().__init__(
            f"{folder} holds something, and nothing is ever overwritten: name an empty folder, or a new one"
        )


class NotOver(CohabitError):
    """Hours are to be metered as a whole of which some are not over."""

    def __init__(self, missing: int) -> None:
        self.missing = missing
        super().__init__(
            f"{missing} of these hours are not over, so none was metered: an hour is over when usage came after it, or "
            "it was a day ago; look whether `cohabit ingest` lags, and run this again"
        )


class NoBackup(CohabitError):
    """A folder that holds no whole backup."""

    def __init__(self, folder: Path, reason: str) -> None:
        self.folder = folder
        super().__init__(
            f"{folder} holds no whole backup ({reason}): name the folder that `cohabit admin backup make` filled"
        )


class DamagedBackup(CohabitError):
    """Files of a backup are not what was written."""

    def __init__(self, folder: Path, wrong: Sequence[str]) -> None:
        self.folder, self.wrong = folder, tuple(wrong)
        super().__init__(
            f"{len(wrong)} files of the backup {folder} are missing or not what was written ({', '.join(wrong[:3])}): "
            "restore another one"
        )


class LinkInside(CohabitError):
    """What is to be backed up holds a link."""

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(
            f"{path} is a link, which no backup follows: put what it leads to in its place, or take it away"
        )


class NeverWhole(CohabitError):
    """A lake that changes faster than it is copied."""

    def __init__(self, lake: Path, tries: int) -> None:
        self.lake = lake
        super().__init__(
            f"files of the lake {lake} went away during each of {tries} tries to copy it: back up while "
            "`cohabit lake compact` does not run"
        )
