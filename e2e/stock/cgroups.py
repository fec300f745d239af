"""Cgroups: groups of processes whose use, throttling and pressure the kernel counts. An edge.

Of hierarchies of version 1 use, quota and memory; of version 2, mounted next to them, pressure. Needs root.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from e2e.kube.errors import E2eError

TOP = Path("/sys/fs/cgroup")
HIERARCHIES = ("cpu", "cpuacct", "memory", "unified")


class NoCgroups(E2eError):
    """The kernel's groups cannot be made here."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"cgroups cannot be made ({reason}): run as root, where {', '.join(HIERARCHIES)} are writable")


@dataclass(frozen=True)
class Group:
    """One group, in each hierarchy a folder of the same name."""

    name: str

    def folder(self, hierarchy: str) -> Path:
        """Its folder in a hierarchy."""
        return TOP / hierarchy / self.name

    def around(self, command: Sequence[str | Path]) -> list[str]:
        """A command line that enters the group and becomes the command."""
        enter = "; ".join(f"echo $$ > {self.folder(one)}/cgroup.procs" for one in HIERARCHIES)
        return ["/bin/sh", "-c", f'{enter}; exec "$@"', "sh", *map(str, command)]

    def limit(self, cores: float | None) -> None:
        """Set its CPU quota; None takes it away."""
        quota = -1 if cores is None else round(cores * 100_000)
        (self.folder("cpu") / "cpu.cfs_quota_us").write_text(str(quota))

    def weigh(self, shares: int) -> None:
        """Set its weight relative to other groups, which have 1024."""
        (self.folder("cpu") / "cpu.shares").write_text(str(shares))

    def number(self, hierarchy: str, name: str) -> int:
        """A file with one number."""
        return int((self.folder(hierarchy) / name).read_text())

    def words(self, hierarchy: str, name: str) -> dict[str, str]:
        """A file of lines that begin with a name, by it."""
        lines = (self.folder(hierarchy) / name).read_text().splitlines()
        return {line.split(" ", 1)[0]: line.split(" ", 1)[1] for line in lines}


@contextmanager
def group(name: str) -> Iterator[Group]:
    """A group, removed with the block, when its processes have ended.

    Raises:
        NoCgroups: it cannot be made.
    """
    made = Group(name)
    try:
        for one in HIERARCHIES:
            made.folder(one).mkdir()
    except OSError as error:
        raise NoCgroups(str(error)) from error
    try:
        yield made
    finally:
        for one in HIERARCHIES:
            with suppress(OSError):
                made.folder(one).rmdir()
