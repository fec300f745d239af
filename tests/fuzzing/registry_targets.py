"""Targets: what the registry keeps beside bundles, keys and signatures, and the configuration of a cluster's client."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from cohabit.lifecycle.drift import SKEW, last_skew
from ingest.kube.list_watch import core_api
from ingest.schema.errors import IngestError
from models.bundle.bundle import SIGNATURE, read_bundle, write_bundle
from models.bundle.manifest import Manifest
from models.bundle.signing import make_keys, signer_of, trust_of
from models.drift.drift_status import STATUS, Change, DriftStatus, Signal, read_status
from models.errors import ModelsError
from models.registry.gate_result import Check, Range, Verdict
from models.registry.registry import VERDICTS, Registry
from models.registry.registry_log import HISTORY, Event, events
from tests.fuzzing.target import Target, of_file

T0 = datetime(2026, 3, 1, tzinfo=UTC)
EMPTY = Manifest(
    created_at=T0, models={}, catalogue_hash="c", training_window=(T0, T0), data_fingerprint="d", platforms=()
)
CHECK = Check(name="tomorrow", challenger=1.0, champion=2.0, worse=Range(value=-1, low=-2, high=0), passed=True)
VERDICT = Verdict(challenger="one", champion="two", judged_at=T0, since=T0, until=T0, labels=9, checks=(CHECK,))
SIGNAL = Signal(name="coverage", value=0.5, low=0.1, high=0.9, limit=0.87, alarm=True, message="too low")
CHANGE = Change(at=T0, bundle="one", state="widened", widening=2.0, why="too low")
DRIFT = DriftStatus(bundle="one", state="widened", widening=2.0, checked_at=T0, signals=(SIGNAL,), changes=(CHANGE,))
KUBECONFIG = b"""
apiVersion: v1
kind: Config
current-context: here
clusters: [{name: one, cluster: {server: "https://127.0.0.1:6443", insecure-skip-tls-verify: true}}]
contexts: [{name: here, context: {cluster: one, user: me, namespace: default}}]
users: [{name: me, user: {token: secret}}]
"""


def registry_targets(folder: Path) -> Iterator[Target]:
    """All of them."""
    shelf = Registry(folder / "registry")
    private, public = make_keys(folder / "keys")
    bundle = write_bundle(shelf.root / "one", EMPTY, {}, signer_of(private)).directory
    trust = trust_of([public])
    yield Target(
        "verdict",
        "models.registry.registry",
        (VERDICT.model_dump_json().encode(),),
        of_file(shelf.root / VERDICTS / "one.json", lambda _: shelf.verdict("one")),
        (ModelsError,),
    )
    yield Target(
        "drift status",
        "models.drift.drift_status",
        (DRIFT.model_dump_json().encode(),),
        of_file(shelf.root / STATUS, lambda _: read_status(shelf)),
        (ModelsError,),
    )
    event = Event(at=T0, what="forced", bundle="one", before=None, by="ann", why="a drill")
    yield Target(
        "history",
        "models.registry.registry_log",
        (event.model_dump_json().encode() + b"\n",),
        of_file(shelf.root / HISTORY, lambda _: events(shelf)),
    )
    kept = b'{"at_us": 1772323200000000, "share": 0.9995}'
    yield Target(
        "skew found", "cohabit.lifecycle.drift", (kept,), of_file(shelf.root / SKEW, lambda _: last_skew(shelf))
    )
    yield Target(
        "signature",
        "models.bundle.signing",
        ((bundle / SIGNATURE).read_bytes(),),
        of_file(bundle / SIGNATURE, lambda path: read_bundle(path.parent, trust)),
        (ModelsError,),
    )
    key = public.read_bytes()
    yield Target(
        "public key",
        "models.bundle.signing",
        (key,),
        of_file(folder / "k.pub", lambda p: trust_of([p])),
        (ModelsError,),
    )
    key = private.read_bytes()
    yield Target("private key", "models.bundle.signing", (key,), of_file(folder / "k.key", signer_of), (ModelsError,))
    yield Target(
        "kubeconfig",
        "ingest.kube.list_watch",
        (KUBECONFIG,),
        of_file(folder / "kubeconfig", lambda path: core_api(path, None, in_cluster=False)),
        (IngestError,),
    )
