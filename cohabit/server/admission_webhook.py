"""Webhook: the listener for kube-apiserver, with its certificate and what nodes have left. An edge."""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from types import TracebackType
from typing import Self

from advisor.admission.admission_advice import AdmissionAdvice, Mode
from advisor.admission.room_file import NewestRooms
from advisor.api.scheduler.admission import create_admission_app
from advisor.placement.prioritizer import Prioritizer
from cohabit.server.sockets import HOST, App, ServerTls, address, free_socket
from ingest.schema.workload_identity import ADVISED


@dataclass(frozen=True, slots=True)
class AdmissionListener:
    """Where kube-apiserver is answered while pods are created.

    Args:
        port: 0 takes any.
        mode: what pods get.
        host: loopback unless there is a certificate.
        files: certificate and key; None speaks plain http.
    """

    port: int
    mode: Mode
    host: str = HOST
    files: tuple[Path, Path] | None = None


class Webhook:
    """The listener, open within a block; nothing where there is none.

    Args:
        listener: None where created pods get no advice.
        snapshots: folder where the refresher publishes what nodes have left.

    Raises:
        CohabitError: the port is not free, or the certificate cannot be used.
    """

    def __init__(self, listener: AdmissionListener | None, snapshots: Path) -> None:
        self._listener, self._snapshots, self._stack = listener, snapshots, ExitStack()
        self._tls = None if listener is None or listener.files is None else ServerTls(*listener.files)
        self._advice: AdmissionAdvice | None = None

    def __enter__(self) -> Self:
        """Open the port."""
        if (of := self._listener) is not None:
            self._bound = self._stack.enter_context(free_socket(of.port, 1, of.host))
        return self

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()

    @property
    def address(self) -> str:
        """As a URL; empty without a listener."""
        return "" if self._listener is None else address(self._bound, "http" if self._tls is None else "https")

    def apps(self, prioritizer: Prioritizer) -> list[App]:
        """The application, answering from a prioritizer."""
        if (of := self._listener) is None:
            return []
        rooms = NewestRooms(self._snapshots)
        self._advice = AdmissionAdvice(prioritizer, rooms, of.mode, lambda: f"{ADVISED}{token_hex(8)}")
        self._advice.reload()
        secured = None if self._tls is None else self._tls.context
        return [(create_admission_app(self._advice), self._bound, secured)]

    def reload(self) -> None:
        """Take up what nodes have left; for the reloading thread."""
        if self._advice is not None:
            self._advice.reload()

    def renew(self) -> None:
        """Take up a renewed certificate; for the reloading thread."""
        if self._tls is not None:
            self._tls.renew()
