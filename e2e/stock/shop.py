"""Shop: a web server of FastAPI with routes of differing speed, that OpenTelemetry's own packages instrument.

Run in an environment of its own: `opentelemetry-instrument uvicorn --app-dir DIR shop:app`.
"""

import asyncio

from fastapi import FastAPI, Response


async def item(number: int) -> dict[str, int]:
    """A quick answer."""
    await asyncio.sleep(0.02)
    return {"item": number}


async def report() -> dict[str, str]:
    """A slow one."""
    await asyncio.sleep(0.08)
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
