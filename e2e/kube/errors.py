"""What keeps the test from a verdict, one class per action a caller can take."""

from pathlib import Path


class E2eError(Exception):
    """The test cannot go on; the message says what to do."""


class NoGo(E2eError):
    """There is no Go toolchain."""

    def __init__(self, version: str, builds: str) -> None:
        self.version, self.builds = version, builds
        super().__init__(
            f"no Go toolchain on PATH: install Go {version} or newer and put `go` on PATH; it builds {builds}, once "
            "for each version"
        )


class BuildFailed(E2eError):
    """A program could not be fetched or built."""

    def __init__(self, what: str, said: str) -> None:
        self.what, self.said = what, said
        super().__init__(f"{what} failed; go said:\n{said}")


class Ended(E2eError):
    """A program ended, or did not become ready in time."""

    def __init__(self, name: str, log: Path, limit_s: float) -> None:
        self.name, self.log, self.limit_s = name, log, limit_s
        tail = log.read_text(errors="replace")[-3000:] if log.exists() else ""
        super().__init__(f"{name} ended, or was not ready after {limit_s:.0f} s; the end of its log:\n{tail}")


class Refused(E2eError):
    """kube-apiserver refused a request."""

    def __init__(self, what: str, status: int, said: bytes) -> None:
        self.what, self.status = what, status
        super().__init__(f"{what} got status {status}: {said[:500].decode(errors='replace')}")


class NotScheduled(E2eError):
    """Pods stay without a node."""

    def __init__(self, bound: int, pods: int, still_s: float) -> None:
        self.bound, self.pods = bound, pods
        super().__init__(f"{bound:,} of {pods:,} pods are bound, and none more in the last {still_s:.0f} s")
