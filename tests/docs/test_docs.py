"""What docs/ingest.md says can be done as it says."""

import re
import tomllib
from pathlib import Path

from typer.testing import CliRunner

from cohabit.cli.main import app
from ingest.decode.formats.format_registry import FORMATS
from ingest.decode.metrics.known_metrics import EXPORTERS
from ingest.decode.metrics.mapping_file import read_mapping
from ingest.decode.metrics.metric_mapping import SERVICE_LEVEL

DOCS = Path(__file__).parents[2] / "docs"
INGEST = (DOCS / "ingest.md").read_text()
README = DOCS.parent / "README.md"
PAGES = "\n".join(page.read_text() for page in sorted([README, *DOCS.glob("*.md"), *DOCS.glob("howto/*.md")]))


def test_every_format_that_is_named_exists() -> None:
    named = re.findall(r"--topic \w+=([a-z-]+)", INGEST)

    assert set(named) >= {"prom-adapter", "telegraf-json", "otlp-proto", "cadvisor", "auto"}
    assert set(named) <= set(FORMATS)


def test_the_mapping_can_be_read(tmp_path: Path) -> None:
    mapping = next(
        block for block in re.findall(r"```toml\n(.*?)```", INGEST, flags=re.DOTALL) if "[[metric]]" in block
    )
    (tmp_path / "my.toml").write_text(mapping)

    read = read_mapping(tmp_path / "my.toml", EXPORTERS)

    assert "my_app_requests_total" in read.metrics
    assert tomllib.loads(mapping)["metric"][0]["target"] == "qps"


def test_what_remote_write_keeps_is_all_that_needs_no_mapping() -> None:
    """But for metrics of controllers, which are of no pod, and Telegraf's, which Prometheus does not send."""
    (kept,) = re.findall(r'regex: "(.*)"', INGEST)
    scraped = [
        name
        for name, metrics in EXPORTERS.metrics.items()
        if "." not in name and name != "perf_stats" and any(one.of != SERVICE_LEVEL for one in metrics)
    ]

    assert [name for name in scraped if not re.fullmatch(kept, name)] == []


def test_every_command_that_is_named_exists_with_its_options() -> None:
    for words, rest in set(
        re.findall(
            r"^cohabit ((?:admin (?:backup |config |database |token )?|bill |capacity |dev |doctor |lake |model |plan "
            r")?[a-z][a-z-]*)([^\n`]*)",
            PAGES,
            flags=re.MULTILINE,
        )
    ):
        command = words.split()
        told = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "300", "TERM": "dumb"})
        assert told.exit_code == 0, command
        if command[0] != "lake":
            for option in re.findall(r" (--[a-z-]+)", rest.split("#")[0]):
                assert option in told.output, (words, option)


def test_every_module_that_a_page_names_is_there() -> None:
    there = {path.name for path in DOCS.parent.rglob("*.py") if ".venv" not in path.parts[len(DOCS.parent.parts)]}
    for page in DOCS.glob("*.md"):
        for name in re.findall(r"`([a-z_0-9/]+\.py)`", page.read_text()):
            assert (DOCS.parent / name).exists() if "/" in name else name in there, (page.name, name)
