"""Shop: a web server of FastAPI with routes of differing work, that OpenTelemetry's own packages instrument.

Run in an environment of its own: `opentelemetry-instrument uvicorn --app-dir DIR shop:app`.
"""

from time import thread_time

from fastapi import FastAPI, Response

ITEM_S, REPORT_S = 0.025, 0.05
"""CPU time of an answer."""


def _work(seconds: float) -> None:
    until = thread_time() + seconds
    while thread_time() < until:
        pass


async def item(number: int) -> dict[str, int]:
    """An answer."""
    _work(ITEM_S)
    return {"item": number}


async def report() -> dict[str, str]:
    """One that takes twice as long."""
    _work(REPORT_S)
    return {"report": "done"}


async def broken() -> Response:
    """A failure, which is quick."""
    return Response(status_code=503)


async def healthz() -> dict[str, str]:
    """What the kubelet asks."""
    return {}


app = FastAPI()
for path, answer in (("/items/{number}", item), ("/report", report), ("/broken", broken), ("/healthz", healthz)):
    app.add_api_route(path, answer)
