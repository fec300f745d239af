"""kube-apiserver's admission webhook: AdmissionReview of admission.k8s.io/v1 in, the same with a JSON Patch out.

A pod is always allowed. A request without a uid gets 400, since no reply could name it; every other one gets a review.
"""

import base64
from typing import Any

import msgspec
from fastapi import APIRouter, FastAPI
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from advisor.admission.admission_advice import AdmissionAdvice, Given
from advisor.admission.pod_bounds import MAX_POD_BYTES
from advisor.api.http.application import assembled
from advisor.api.scheduler.raw_http import decoded, send_json, whole_body

VERSION, KIND = "admission.k8s.io/v1", "AdmissionReview"
MAX_REVIEW_BYTES = 4 << 20
"""kube-apiserver takes objects of 3 MiB."""
UNREAD = "cohabit: cannot read the pod, so it gets no advice"


class Uid(msgspec.Struct):
    """What a reply repeats, and the object, whose size is looked at before it is read."""

    uid: str
    object: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)


class Asked(msgspec.Struct):
    """The part of a review without which there is no reply."""

    request: Uid


class KindOf(msgspec.Struct):
    """Group, version and kind of the object."""

    group: str = ""
    version: str = ""
    kind: str = ""


class AdmissionRequest(msgspec.Struct):
    """The part of the request that is read; Go writes nil as null."""

    uid: str
    kind: KindOf = msgspec.field(default_factory=KindOf)
    subResource: str = ""  # noqa: N815
    namespace: str = ""
    operation: str = ""
    object: dict[str, Any] | None = None
    dryRun: bool | None = None  # noqa: N815

    @property
    def creates_a_pod(self) -> bool:
        """Whether it is what the webhook is for."""
        made = self.kind.group, self.kind.version, self.kind.kind, self.operation, self.subResource
        return made == ("", "v1", "Pod", "CREATE", "") and self.object is not None


class ReviewRequest(msgspec.Struct):
    """AdmissionReview as kube-apiserver sends it."""

    request: AdmissionRequest


class AdmissionResponse(msgspec.Struct, omit_defaults=True):
    """The decision; the patch is base64."""

    uid: str
    allowed: bool
    patchType: str | None = None  # noqa: N815
    patch: str | None = None
    warnings: list[str] = msgspec.field(default_factory=list)


class ReviewReply(msgspec.Struct):
    """AdmissionReview as kube-apiserver takes it."""

    response: AdmissionResponse
    apiVersion: str = VERSION  # noqa: N815
    kind: str = KIND


_asked = msgspec.json.Decoder(Asked).decode
_review = msgspec.json.Decoder(ReviewRequest).decode
_encode = msgspec.json.Encoder().encode


class Admit:
    """Allows every pod, and adds preferred node affinity to those that are being created.

    AdmissionReview of admission.k8s.io/v1 as JSON, always with `allowed: true`. The patch adds terms and annotation
    `cohabit.io/advice`; there is none without advice.
    """

    roles = ("scheduler",)
    asks, returns = ReviewRequest, ReviewReply

    def __init__(self, advice: AdmissionAdvice) -> None:
        self.advice = advice

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one review."""
        body = await whole_body(receive)
        asked = decoded(_asked, body, "an AdmissionReview with request.uid").request
        too_long = memoryview(asked.object).nbytes > MAX_POD_BYTES
        given = self.advice.count(Given("failed", [], "unreadable")) if too_long else self._given(body)
        await send_json(send, _encode(reply_to(asked.uid, given)), [])

    def _given(self, body: bytes) -> Given:
        try:
            request = _review(body).request
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return self.advice.count(Given("failed", [], "unreadable"))
        if not request.creates_a_pod:
            return self.advice.count(Given("skipped", [], "other_object"))
        return self.advice.give(request.object or {}, request.namespace, dry_run=bool(request.dryRun))


def reply_to(uid: str, given: Given) -> ReviewReply:
    """The review of a request: allowed, with a patch of advice, or a warning where the pod could not be read."""
    response = AdmissionResponse(uid, allowed=True)
    if given.patch:
        response.patchType = "JSONPatch"
        response.patch = base64.b64encode(_encode(given.patch)).decode()
    if given.outcome == "failed":
        response.warnings = [UNREAD]
    return ReviewReply(response)


def create_admission_app(advice: AdmissionAdvice) -> FastAPI:
    """The webhook's application; it has a listener of its own."""
    router = APIRouter()
    router.routes.append(Route("/admission", Admit(advice), methods=["POST"]))
    return assembled("Cohabit at admission", [router], max_body_bytes=MAX_REVIEW_BYTES)
