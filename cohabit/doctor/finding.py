"""Doctor: findings, each one line that says what is so and, where it should not be, what to do."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from cohabit.terminal.console import console

Level = Literal["ok", "warning", "problem"]
STYLES: dict[Level, str] = {"ok": "green", "warning": "yellow", "problem": "bold red"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Args:
        level: `problem` where advice is lost or a scheduler hindered, `warning` where it may be.
        subject: what was looked at.
        said: what was found and what to do.
    """

    level: Level
    subject: str
    said: str


def ok(subject: str, said: str) -> Finding:
    """All is well."""
    return Finding("ok", subject, said)


def warning(subject: str, said: str) -> Finding:
    """Something may be wrong."""
    return Finding("warning", subject, said)


def problem(subject: str, said: str) -> Finding:
    """Something is wrong."""
    return Finding("problem", subject, said)


def show_findings(findings: Iterable[Finding]) -> bool:
    """Print each in one line, then their number; whether there is no problem."""
    count: Counter[Level] = Counter()
    for finding in findings:
        count[finding.level] += 1
        line = f"{finding.subject}: {finding.said}"
        console.print(f"{finding.level:<8}", style=STYLES[finding.level], end="")
        console.print("".join(c if c.isprintable() else "?" for c in line), soft_wrap=True)
    console.print(f"{count['ok']} ok, {count['warning']} warnings, {count['problem']} problems")
    return not count["problem"]
