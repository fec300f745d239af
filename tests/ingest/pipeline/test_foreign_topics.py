"""Foreign topics: what the command line and the settings name is landed as samples, next to our own topics."""

from pathlib import Path

import pytest

from cohabit.cli.data.stream import run_ingest
from cohabit.config.errors import CohabitError
from cohabit.config.settings import Settings, read_settings
from cohabit.config.topic_formats import foreign_topics
from cohabit.ingestion.worker import Wishes
from ingest.kafka_io.stream_files import Message, TopicWriter
from ingest.lake.tables import Lake
from ingest.schema.errors import IngestError
from tests.ingest.foreign import ARRIVED, dumped
from tests.ingest.samples_of import adapter, pod_container


def test_a_folder_of_foreign_topics_lands_as_samples(tmp_path: Path) -> None:
    arrived = int(ARRIVED.timestamp()) * 1000
    TopicWriter(tmp_path / "in", "tele").write([Message(arrived, None, dumped(pod_container()))])
    TopicWriter(tmp_path / "in", "mixed").write(
        [Message(arrived, None, dumped(adapter())), Message(arrived, None, b"?")]
    )
    settings = Settings(lake=str(tmp_path / "lake"), cluster="c9")
    wishes = Wishes(topics=("tele=telegraf-json", "mixed=auto"))

    run_ingest(settings, tmp_path / "in", lake=None, bootstrap=None, until_end=True, wishes=wishes)

    from features.schema.tables import TABLES

    lake = Lake.open(settings.lake, TABLES)
    rows = lake.read("samples").to_pylist()
    assert {(row["topic"], row["cluster"]) for row in rows} == {("tele", "c9"), ("mixed", "c9")}
    assert sorted(row["value"] for row in rows) == [1.5, 7.0, 12.5]
    assert lake.read("dead_letters")["topic"].to_pylist() == ["mixed"]


def test_topics_come_from_the_settings_too_and_an_option_wins(tmp_path: Path) -> None:
    mapping = tmp_path / "mine.toml"
    mapping.write_text("[[metric]]\nname = 'x'\ntarget = 'cpu'")
    settings = read_settings({"COHABIT_KAFKA__TOPICS": "a=auto, b=nonsense", "COHABIT_MAPPING": str(mapping)})

    with pytest.raises(IngestError, match="line 1, 'x'"):
        foreign_topics(settings, [], None)
    mapping.write_text("")
    assert set(foreign_topics(settings, ["b=cadvisor"], None)) == {"a", "b"}
    with pytest.raises(IngestError, match="'nonsense'; formats are auto, telegraf-json"):
        foreign_topics(settings, [], None)


@pytest.mark.parametrize("told", ["telegraf", "=auto", "telegraf="])
def test_a_topic_without_format_is_refused_with_the_formats(told: str) -> None:
    with pytest.raises(CohabitError, match="NAME=FORMAT, as in telegraf=telegraf-json; formats: auto"):
        foreign_topics(Settings(), [told], None)


def test_a_name_that_cannot_be_a_topic_is_refused() -> None:
    with pytest.raises(IngestError, match="cannot name a place in the lake"):
        foreign_topics(Settings(), ["a/b=auto"], None)
