"""CPU times: what each program of a run took, its busiest thread apart. An edge; reads /proc."""

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
NICE_FIELD, USER_FIELD, SYSTEM_FIELD = 16, 11, 12
"""Of /proc/PID/stat, after the name in brackets."""


@dataclass(frozen=True)
class CpuTimes:
    """CPU seconds of the threads of all programs that this process started.

    Args:
        of: by program and thread.
    """

    of: Mapping[tuple[str, int], float]

    @classmethod
    def now(cls) -> "CpuTimes":
        """As /proc has them; programs that end meanwhile are left out."""
        found: dict[tuple[str, int], float] = {}
        for pid in _descendants(os.getpid()):
            try:
                name = _name(pid)
                for task in Path(f"/proc/{pid}/task").iterdir():
                    found[name, int(task.name)] = _seconds(_fields(task))
            except (FileNotFoundError, ProcessLookupError):
                continue
        return cls(found)

    def since(self, before: "CpuTimes") -> dict[str, tuple[float, float]]:
        """CPU seconds of each program since then: of all its threads, and of the busiest one."""
        threads: dict[str, list[float]] = defaultdict(list)
        for (name, thread), seconds in self.of.items():
            threads[name].append(seconds - before.of.get((name, thread), 0.0))
        return {name: (sum(each), max(each)) for name, each in threads.items() if sum(each) > 0}


def _descendants(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = [int(child) for child in task.read_text().split()]
        except (FileNotFoundError, ProcessLookupError):
            continue
        for child in children:
            yield child
            yield from _descendants(child)


def _name(pid: int) -> str:
    """Of the program; the advisor's processes by what they do."""
    words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    if "cohabit" in words and "serve" in words and "child_process" not in " ".join(words[:6]):
        return "advisor"
    if "python" not in Path(words[0]).name:
        return Path(words[0]).name
    return "score table" if int(_fields(Path(f"/proc/{pid}"))[NICE_FIELD]) > 0 else "test"


def _fields(folder: Path) -> list[str]:
    return (folder / "stat").read_text().rpartition(")")[2].split()


def _seconds(fields: list[str]) -> float:
    return (int(fields[USER_FIELD]) + int(fields[SYSTEM_FIELD])) / TICKS_PER_S
