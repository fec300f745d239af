"""Docs page: the configurations that docs/ingest.md shows, by exporter. Kernel."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

NODE = "n1"
"""Node that stands for environment variables of a configuration."""


@dataclass(frozen=True)
class Section:
    """A section of the page.

    Args:
        heading: its heading.
        text: what is below it.
    """

    heading: str
    text: str

    def blocks(self, language: str) -> list[str]:
        """Its examples in a language."""
        return re.findall(rf"^```{language}\n(.*?)^```", self.text, re.MULTILINE | re.DOTALL)

    def topic(self) -> tuple[str, str]:
        """Name and format of its first `--topic NAME=FORMAT`."""
        name, kind = re.findall(r"--topic (\w+)=([a-z-]+)", self.text)[0]
        return name, kind


def sections(page: str) -> dict[str, Section]:
    """Sections of a page by heading."""
    parts = re.split(r"^## (.+)\n", page, flags=re.MULTILINE)
    return {heading: Section(heading, text) for heading, text in zip(parts[1::2], parts[2::2], strict=True)}


def kept_metrics(prometheus: Section) -> re.Pattern[str]:
    """Names that the remote write of the page keeps."""
    [remote] = yaml.safe_load(prometheus.blocks("yaml")[0])["remote_write"]
    [rule] = [rule for rule in remote["write_relabel_configs"] if rule["action"] == "keep"]
    return re.compile(rule["regex"])


def resource_attributes(collector: Section) -> str:
    """Attributes of the page's `resource` processor, as JSON."""
    configured: dict[str, Any] = yaml.safe_load(collector.blocks("yaml")[0])
    attributes = json.dumps(configured["processors"]["resource"]["attributes"])
    return re.sub(r"\$\{env:\w+\}", NODE, attributes)


def telegraf_configs(telegraf: Section) -> dict[str, str]:
    """Telegraf's configurations: `docker` as the page shows it, and with the inputs that its comment offers instead."""
    [shown] = telegraf.blocks("toml")
    inputs, output = shown.split("[[outputs.kafka]]")
    agent, output = f'[agent]\nhostname = "{NODE}"\n', f"[[outputs.kafka]]{output}"
    [comment] = re.findall(r"# or (.+)", inputs)
    others = dict(re.findall(r"inputs\.(\w+)(?: \(([^)]*)\))?", comment))
    system = "".join(f"[[inputs.{name}]]\n{setting}\n" for name, setting in others.items() if name != "kubernetes")
    return {
        "docker": agent + inputs + output,
        "kubernetes": f"{agent}[[inputs.kubernetes]]\n{output}",
        "system": agent + system + output,
    }


def own_records(own: Section) -> Iterator[tuple[str, bytes]]:
    """Topic and record of each example of Cohabit's own format."""
    for block in own.blocks("json"):
        for text in re.findall(r"^\{.*?\}$", block, re.MULTILINE | re.DOTALL):
            record = json.loads(text)
            topic = "placements" if "event" in record else "usage" if "container" in record else "nodes"
            yield topic, text.replace("\n", " ").encode()
