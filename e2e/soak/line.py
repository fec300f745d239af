"""Line: everything that runs for good, each as the command that a person would start, and the short ones in between."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from e2e.soak.errors import SoakFailed

ENDS_WITHIN_S = 60.0


@dataclass
class Line:
    """Long-running commands over one folder.

    Args:
        folder: of lake, registry, store and logs.
        bootstrap: the broker.
        cluster: name of the cluster.
        processes: by name, once started.
    """

    folder: Path
    bootstrap: str
    cluster: str
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def environment(self) -> Mapping[str, str]:
        """Settings of every command."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("COHABIT_")}
        folders = {f"COHABIT_{n.upper()}": str(self.folder / n) for n in ("lake", "registry", "snapshots")}
        own = {
            "COHABIT_BILLING__LEDGER_DIR": str(self.folder / "ledger"),
            "COHABIT_CLUSTER": self.cluster,
            "COHABIT_KAFKA__BOOTSTRAP": self.bootstrap,
            "COHABIT_DATABASE": str(self.folder / "store.sqlite"),
            "COLUMNS": "160",
        }
        return {**kept, **folders, **own}

    def start(self, name: str, *words: str) -> None:
        """Start a command that runs until the end; its words go to a log of its name."""
        with (self.folder / f"{name}.log").open("ab") as log:
            command = [sys.executable, "-m", "cohabit", *words]
            self.processes[name] = subprocess.Popen(command, env=self.environment(), stdout=log, stderr=log)

    def run(self, *words: str, limit_s: float = 900.0) -> tuple[int, float, str]:
        """Run a command to its end: exit code, seconds, and what it printed."""
        began = monotonic()
        command = [sys.executable, "-m", "cohabit", *words]
        done = subprocess.run(
            command, env=self.environment(), capture_output=True, text=True, timeout=limit_s, check=False
        )
        with (self.folder / "commands.log").open("a") as log:
            log.write(f"$ cohabit {' '.join(words)}\n{done.stdout}{done.stderr}exit {done.returncode}\n\n")
        return done.returncode, monotonic() - began, done.stdout + done.stderr

    def must(self, *words: str) -> str:
        """As run, of a command that has to end well; what it printed.

        Raises:
            SoakFailed: it did not.
        """
        code, _, told = self.run(*words)
        if code:
            raise SoakFailed(f"cohabit {' '.join(words)} ended with {code}: {told.strip().splitlines()[-1:]}")
        return told

    def dead(self) -> list[str]:
        """Names of processes that ended unexpectedly."""
        return [name for name, process in self.processes.items() if process.poll() is not None]

    def complaints(self) -> list[str]:
        """Lines of the logs that tell of something that went wrong."""
        found = []
        for name in self.processes:
            text = (self.folder / f"{name}.log").read_text(errors="replace")
            wrong = re.findall(r"^.*(?:Traceback|\"level\": ?\"error\"|\[error|ERROR).*$", text, re.MULTILINE)
            found += [f"{name}: {line.strip()[:200]}" for line in wrong]
        return found

    def pids(self) -> dict[str, int]:
        """By name, of those that run and of the processes that they have started."""
        found = {}
        for name, process in self.processes.items():
            found[name] = process.pid
            children = sorted(_descendants(process.pid))
            found |= {f"{name}, {_word(pid)} {i}": pid for i, pid in enumerate(children, 1)}
        return found


@contextmanager
def stopped(line: Line) -> Iterator[Line]:
    """End everything that was started, with the block."""
    with ExitStack() as stack:
        stack.callback(_end, line)
        yield line


def _end(line: Line) -> None:
    for process in reversed(line.processes.values()):
        process.terminate()
    for process in line.processes.values():
        try:
            process.wait(ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _descendants(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = [int(child) for child in task.read_text().split()]
        except OSError:
            continue
        for child in children:
            yield child
            yield from _descendants(child)


def _word(pid: int) -> str:
    """What a process is, in one word."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return "gone"
    if "java" in command:
        return "java"
    return "tracker" if "resource_tracker" in command else "process"
