"""What ends the test."""

from collections.abc import Sequence

from e2e.kube.errors import E2eError


class HelmFailed(E2eError):
    """Helm, or a program that checks what it renders, exited with an error."""

    def __init__(self, words: Sequence[str], said: str) -> None:
        self.words = tuple(words)
        super().__init__(f"{' '.join(words)} failed:\n{said[-3000:]}")


class Differs(E2eError):
    """Two sides that have to be equal are not."""

    def __init__(self, what: str, found: Sequence[str]) -> None:
        self.found = tuple(found)
        super().__init__(f"{what}: {len(found)} differences:\n" + "\n".join(found))
