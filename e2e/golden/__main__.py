"""`python -m e2e.golden`: configurations of docs/ingest.md on the exporters' own golden data, through a real broker.

Exit 1 where a record becomes a dead letter, where CPU or memory of a source does not land, or where a value differs
from the golden file.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from cohabit.terminal.console import console, show_error
from e2e.golden.docs_page import Section, sections
from e2e.golden.exporters import Records, gathered
from e2e.golden.judging import COLUMNS, complaints, landed, line, row_of
from e2e.golden.modules import HERE, SUMS, folders, pinned
from e2e.golden.sources import SOURCES
from e2e.kube.errors import BuildFailed, E2eError
from features.schema.tables import TABLES
from ingest.devkafka.broker import create_topics, running_broker
from ingest.kafka_io.replay import Sender
from ingest.kafka_io.stream_files import Message
from ingest.lake.tables import Lake
from ingest.schema.topics import TOPICS, Topic, message_key

PAGE = Path(__file__).parents[2] / "docs" / "ingest.md"
ANYTHING = "anything=auto"
"""The page's topic of unnamed format."""
Offsets = Mapping[str, Mapping[str, range]]
"""Of the records of each source, by topic."""


def main() -> int:
    """Run everything; the exit code."""
    page = sections(PAGE.read_text())
    try:
        console.print("downloading the exporters' modules and running their parts (minutes; ten the first time)")
        modules, now = folders(), datetime.now(UTC)
        with tempfile.TemporaryDirectory(prefix="cohabit-e2e-golden-") as name:
            work = Path(name)
            records = gathered(page, modules, work, now)
            offsets, tables = _ingested(page, records, work, now)
    except E2eError as error:
        show_error(error)
        return 1
    return _judged(offsets, tables, modules)


def _judged(offsets: Offsets, tables: Mapping[str, pa.Table], modules: Mapping[str, Path]) -> int:
    versions = {module: version for module, (version, _) in pinned(SUMS.read_text()).items()}
    found = {source.name: landed(offsets[source.name], tables) for source in SOURCES}
    rows = [row_of(source, found[source.name], versions.get(source.module, "rebuilt")) for source in SOURCES]
    for row in (COLUMNS, *rows):
        console.print(line(row), markup=False, soft_wrap=True)
    for place in dict.fromkeys(place for source in SOURCES for place in source.rebuilt):
        names = "; ".join(source.name for source in SOURCES if place in source.rebuilt)
        console.print(f"rebuilt: {place} ({names})", markup=False, soft_wrap=True)

    def read(module: str, file: str) -> str:
        return (modules.get(module, HERE) / file).read_text()

    wrong = [f"{source.name}: {one}" for source in SOURCES for one in complaints(source, found[source.name], read)]
    for complaint in wrong:
        console.print(complaint, markup=False, soft_wrap=True)
    console.print(f"{len(SOURCES)} sources, {len(wrong)} complaints")
    return 1 if wrong else 0


def _ingested(
    page: Mapping[str, Section], records: Mapping[str, Records], work: Path, now: datetime
) -> tuple[Offsets, dict[str, pa.Table]]:
    """Send all records to a broker, ingest its topics as the page says, and read the lake."""
    topics = _topics(page)
    lake = work / "lake"
    with running_broker(work / "kafka") as broker:
        foreign = [Topic(topic.partition("=")[0], (), 1) for topic in topics]
        own = [Topic(topic.name, topic.key, 1, topic.compacted) for topic in TOPICS.values()]
        create_topics(broker.bootstrap, [*foreign, *own])
        offsets = _sent(broker.bootstrap, records, now)
        options = ["--bootstrap", broker.bootstrap, "--lake", str(lake)]
        options += [word for topic in topics for word in ("--topic", topic)]
        done = subprocess.run(
            [sys.executable, "-m", "cohabit", "ingest", "--until-end", *options],
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise BuildFailed("cohabit ingest", done.stdout[-2000:] + done.stderr[-2000:])
    opened = Lake.open(lake, TABLES)
    return offsets, {
        name: pa.concat_tables([opened.read(name).slice(0, 0), *opened.pieces(name)])
        for name in ("samples", "usage", "dead_letters")
    }


def _topics(page: Mapping[str, Section]) -> list[str]:
    """Topics of the page with their formats."""
    named = ("Prometheus", "Telegraf", "OpenTelemetry Collector", "cAdvisor")
    return ["=".join(page[heading].topic()) for heading in named] + [ANYTHING]


def _sent(bootstrap: str, records: Mapping[str, Records], now: datetime) -> Offsets:
    ends: dict[str, int] = {}
    offsets: dict[str, dict[str, range]] = {}
    with closing(Sender(bootstrap)) as sender:
        for source, ones in records.items():
            before = dict(ends)
            for topic, record in ones:
                key = message_key(TOPICS[topic], json.loads(record)) if topic in TOPICS else None
                sender.send(topic, Message(int(now.timestamp() * 1000), key, record))
                ends[topic] = ends.get(topic, 0) + 1
            offsets[source] = {
                topic: range(before.get(topic, 0), ends[topic]) for topic in {topic for topic, _ in ones}
            }
        sender.flush()
    return offsets


if __name__ == "__main__":
    sys.exit(main())
