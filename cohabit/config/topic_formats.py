"""Foreign topics: what `--topic`, `--mapping` and their settings name -> the decoder of each topic."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import typer

from cohabit.config.errors import CohabitError
from cohabit.config.settings import Settings
from ingest.decode.contract import Decode
from ingest.decode.formats.format_registry import FORMATS, decoder_named
from ingest.decode.metrics.known_metrics import EXPORTERS
from ingest.decode.metrics.mapping_file import read_mapping
from ingest.decode.metrics.metric_mapping import UNIT, ForeignMetric
from ingest.schema.provenance import checked_name
from ingest.schema.topics import TOPICS


def foreign_topics(settings: Settings, options: Sequence[str], mapping: Path | None) -> Mapping[str, Decode]:
    """Decoders by topic; an option wins over the setting for the same topic.

    Args:
        settings: with `kafka.topics`, NAME=FORMAT by commas, and `mapping`.
        options: NAME=FORMAT each.
        mapping: file of further metrics, in place of the setting's.

    Raises:
        CohabitError: one is not NAME=FORMAT, or names one of our own topics.
        IngestError: a name cannot be a topic's, no format has that name, or the file cannot be used.
    """
    path = mapping or settings.mapping
    known = EXPORTERS if path is None else read_mapping(path, EXPORTERS)
    entries = [entry.strip() for entry in settings.kafka.topics.split(",") if entry.strip()]
    formats = dict(_split(entry) for entry in (*entries, *options))
    if own := sorted(formats.keys() & TOPICS.keys()):
        raise _bad_topic(f"{own[0]}={formats[own[0]]}", "that topic is Cohabit's own, in its own format")
    return {name: decoder_named(wanted, known) for name, wanted in formats.items()}


def show_metrics(settings: Settings, mapping: Path | None) -> None:
    """Print every foreign metric that is known, and what it becomes; histograms in the unit that they usually have."""
    path = mapping or settings.mapping
    known = EXPORTERS if path is None else read_mapping(path, EXPORTERS)
    for name in sorted(known.metrics):
        usual = (one for one in known.metrics[name] if "" in one.where.get(UNIT, ("",)))
        for metric in usual:
            becomes = f"{metric.target} {metric.kind}" + (f" x {metric.scale:g}" if metric.scale != 1 else "")
            typer.echo(f"{name:<60} {becomes:<44} {_conditions(metric)}".rstrip())


def _conditions(metric: ForeignMetric) -> str:
    wanted = [f"{label}={'|'.join(words)}" for label, words in metric.where.items() if label != UNIT]
    return " ".join(wanted + [f"not {label}={'|'.join(words)}" for label, words in metric.unless.items()])


def _split(entry: str) -> tuple[str, str]:
    name, equals, wanted = entry.partition("=")
    if not (equals and name and wanted):
        raise _bad_topic(entry, "not a topic with its format")
    return checked_name(name), wanted


def _bad_topic(entry: str, why: str) -> CohabitError:
    return CohabitError(
        f"{entry!r}: {why}: write NAME=FORMAT, as in telegraf=telegraf-json; formats: {', '.join(FORMATS)}"
    )
