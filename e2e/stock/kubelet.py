"""Kubelet: a stand-in that serves /metrics/cadvisor from real cgroups, by cAdvisor's names and conditions. An edge.

Source: google/cadvisor, lib/metrics/prometheus.go: throttling is there only where a quota is.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from e2e.stock.cgroups import Group

PSI = {"some": "waiting", "full": "stalled"}


@dataclass(frozen=True)
class Container:
    """A container of a pod, and the group that it is."""

    namespace: str
    pod: str
    uid: str
    group: Group

    def lines(self) -> Iterator[str]:
        """Its part of the page."""
        cpu, unlimited = self.group.words("cpu", "cpu.stat"), self.group.number("cpu", "cpu.cfs_quota_us") < 0
        yield self._line("cpu_usage_seconds_total", self.group.number("cpuacct", "cpuacct.usage") / 1e9, 'cpu="total"')
        yield self._line("memory_working_set_bytes", self.group.number("memory", "memory.usage_in_bytes"))
        if not unlimited:
            yield self._line("cpu_cfs_periods_total", int(cpu["nr_periods"]))
            yield self._line("cpu_cfs_throttled_periods_total", int(cpu["nr_throttled"]))
            yield self._line("cpu_cfs_throttled_seconds_total", int(cpu["throttled_time"]) / 1e9)
        for resource in ("cpu", "memory", "io"):
            for degree, text in self.group.words("unified", f"{resource}.pressure").items():
                total = int(text.rpartition("total=")[2])
                yield self._line(f"pressure_{resource}_{PSI[degree]}_seconds_total", total / 1e6)

    def _line(self, name: str, value: float, more: str = "") -> str:
        path = f"/kubepods/burstable/pod{self.uid}/{self.uid.replace('-', '')}"
        labels = [f'id="{path}"', f'namespace="{self.namespace}"', f'pod="{self.pod}"', 'container="main"']
        return f"container_{name}{{{','.join([*labels, *([more] if more else [])])}}} {value}"


@contextmanager
def kubelet(containers: Sequence[Container], port: int) -> Iterator[None]:
    """The page at http://127.0.0.1:PORT/metrics/cadvisor."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = "".join(f"{line}\n" for one in containers for line in one.lines()).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Page)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
