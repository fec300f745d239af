"""Listening: a webhook that keeps what it is told. An edge."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

Told = list[dict[str, object]]


@contextmanager
def webhook() -> Iterator[tuple[str, Told]]:
    """Its address, and what it was told so far."""
    told = Told()

    class Keeps(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Keeps)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/failed", told
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
