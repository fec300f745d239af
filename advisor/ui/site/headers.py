"""Headers that every answer under /ui has, whatever it is."""

from starlette.datastructures import MutableHeaders
from starlette.types import Message, Send

POLICY = "; ".join(
    [
        "default-src 'self'",
        "img-src 'self' data:",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    ]
)
ALWAYS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
NEVER_KEPT = "no-store"
"""Of what differs by who asks; files that never change say otherwise themselves."""


def with_headers(send: Send) -> Send:
    """Send what is sent, with the headers."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.update(ALWAYS)
            headers.setdefault("Cache-Control", NEVER_KEPT)
        await send(message)

    return sending
