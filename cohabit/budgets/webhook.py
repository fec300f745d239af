"""Webhook call: one POST of JSON to an address that was checked when it was set. An edge."""

import json
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from threading import Thread

WEBHOOK_LIMIT_S = 5.0
Outcome = OSError | HTTPException | ValueError | None
"""What became of a call; None is success."""


def post(url: str, body: Mapping[str, object], limit_s: float = WEBHOOK_LIMIT_S) -> None:
    """Post to a webhook, and follow no redirect.

    Args:
        url: of the webhook.
        body: becomes JSON.
        limit_s: seconds that all of its answer may take.

    Raises:
        OSError, http.client.HTTPException: it does not answer in that time, or not with success.
    """
    request = urllib.request.Request(  # noqa: S310 - checked when it was set
        url, json.dumps(body).encode(), {"Content-Type": "application/json"}, method="POST"
    )
    came = list[Outcome]()
    call = Thread(
        target=_call, args=(request, limit_s, came), daemon=True
    )  # a limit of sockets begins anew with each byte
    call.start()
    call.join(limit_s)
    if not came:
        raise TimeoutError(f"it has not answered in {limit_s:g} s")
    if came[0] is not None:
        raise came[0]


def _call(request: urllib.request.Request, limit_s: float, came: list[Outcome]) -> None:
    try:
        urllib.request.build_opener(_Straight).open(request, timeout=limit_s).close()
    except (OSError, HTTPException, ValueError) as error:
        came.append(error)
    else:
        came.append(None)


class _Straight(urllib.request.HTTPRedirectHandler):
    """Follows no redirect."""

    def redirect_request(self, *_: object, **__: object) -> None:
        """No other address."""
