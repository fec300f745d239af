"""Webhook call: one POST of JSON to an address that was checked when it was set. An edge."""

import json
import urllib.request
from collections.abc import Mapping

WEBHOOK_LIMIT_S = 5.0


def post(url: str, told: Mapping[str, object]) -> None:
    """Tell a webhook something, and follow no redirect.

    Raises:
        OSError, http.client.HTTPException: it does not answer, or not with success.
    """
    request = urllib.request.Request(  # noqa: S310 - checked when it was set
        url, json.dumps(told).encode(), {"Content-Type": "application/json"}, method="POST"
    )
    with urllib.request.build_opener(_Straight).open(request, timeout=WEBHOOK_LIMIT_S):
        pass


class _Straight(urllib.request.HTTPRedirectHandler):
    """Goes nowhere else than it was told."""

    def redirect_request(self, *_: object, **__: object) -> None:
        """No other address."""
