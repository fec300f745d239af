"""Targets: what is read back from disk or the store, and tokens and keys of issuers.

Files called by their SHA-256, which the store knows, are changed and not called anew: who can do both is inside.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
from sqlalchemy import Engine

from advisor.auth.api_tokens import signed
from advisor.auth.audit_log import Entry
from advisor.auth.oidc import Rules, judge, read_keys
from advisor.billing.ledger import price_book_store as book_store
from advisor.billing.ledger.closing import Closing
from advisor.billing.ledger.drafts import FORMAT, Draft, draft_from, draft_json, refuse_wrong
from advisor.billing.ledger.price_book_records import book_from, book_json
from advisor.billing.lines.line import line_from, line_json
from advisor.billing.lines.parquet import read_lines
from advisor.billing.pricing.price_book import HOUR_US
from advisor.billing.pricing.price_book_toml import EXAMPLE, price_book_from
from advisor.cluster.pending_pod import PodClass
from advisor.cluster.snapshot import load_current, publish
from advisor.database.engine import open_store
from advisor.diagnosis.report_file import read_report, write_report
from advisor.errors import AdvisorError, Conflict, NoTable, Unavailable, UnreadableDiagnoses
from advisor.placement.decision_log import Advised
from advisor.plans.rules.errors import UnreadablePlan
from advisor.plans.rules.plan_record import plan_from, plan_json
from advisor.plans.rules.policy import Rules as PlanRules
from advisor.remediation.options_file import keep_ladders, kept_ladder
from advisor.remediation.ranked_options import Ladder
from advisor.scoring.score_table import ScoreTable
from advisor.scoring.score_table_file import read_table, write_table
from cohabit.backup.archive import Places, back_up, verify
from cohabit.billing.draft import draft_of
from cohabit.billing.inputs import SUFFIX, read_inputs
from cohabit.billing.statements.explain import explain
from cohabit.config.errors import CohabitError
from cohabit.impact.estimate import trial_lines
from cohabit.lifecycle.training_serving_skew import read_served
from cohabit.plans.plan_inputs import Inputs, keep, kept
from features.schema.catalog import RAW_NAMES
from models.bundle.bundle import MANIFEST, SEAL, read_bundle, write_bundle
from models.bundle.manifest import Manifest, ModelEntry
from models.calibration.conformal import Calibration
from models.errors import BundleCorrupt, ModelsError
from models.metrics.errors_and_ranks import Estimate
from tests.advisor.billing.billed import START_US
from tests.advisor.billing.lines.test_line import lines
from tests.advisor.billing.metered_month import lake_of, pool_rows, price_book, rows
from tests.advisor.billing.months_drawn import ANN, BOB, NOW_US, PERIOD, batch
from tests.advisor.clusters import snapshot
from tests.advisor.diagnoses import diagnosis, told
from tests.advisor.issuers import coded, ec_key, ed_key, public_jwk, rsa_key, token
from tests.advisor.plans.made import plan
from tests.advisor.stores import migrated_store
from tests.fuzzing.target import Refused, Target, in_folder, of_text
from tests.models.bundle.test_bundle import FILES, T0

NOW_S = 10**9
RULES = Rules("https://issuer.example", "cohabit", "realm.groups", {"platform-team": "sre"})
CLAIMS = {"iss": RULES.issuer, "aud": ["cohabit"], "sub": "alice", "exp": NOW_S + 60, "nbf": NOW_S - 5,
          "realm": {"groups": ["platform-team", "x"]}}  # fmt: skip
KEYS = {"keys": [public_jwk(rsa_key(), kid="r"), public_jwk(ec_key(), kid="e"), public_jwk(ed_key(), kid="d")]}


def kept_targets(folder: Path) -> Iterator[Target]:
    """All of them."""
    yield from _records()
    yield from _tokens()
    yield from _beside_snapshots(folder / "beside")
    yield from _bundle(folder / "bundle")
    yield from _site(folder / "site")


def _records() -> Iterator[Target]:
    draft = Draft(FORMAT, "c", PERIOD, "EUR", (batch("std@a", ("shop", "base", 7), ("ads", "base", 5)),))
    book = price_book_from(EXAMPLE, "ann")
    yield Target("line", "advisor.billing.lines.line", tuple(map(line_json, lines())), line_from, (AdvisorError,))
    yield Target(
        "kept price book",
        "advisor.billing.ledger.price_book_records",
        (book_json(book),),
        book_from,
        (Unavailable,),
    )
    refuses = Unavailable, Conflict, AdvisorError
    yield Target(
        "draft", "advisor.billing.ledger.drafts", (draft_json(draft),), lambda of: refuse_wrong(draft_from(of)), refuses
    )
    yield Target(
        "plan", "advisor.plans.rules.plan_record", (plan_json(plan(holdout=(3,))),), plan_from, (UnreadablePlan,)
    )


def _tokens() -> Iterator[Target]:
    keys = read_keys(KEYS)
    good = [token(CLAIMS, key, alg, kid=kid) for key, alg, kid in ((ec_key(), "ES256", "e"), (ed_key(), "EdDSA", "d"))]

    def shown(text: str) -> None:
        found = signed(text)
        if found is None or judge(found, keys, RULES, NOW_S * 10**6).why:
            raise Refused(text)

    def claimed(claims: bytes) -> None:
        body = f"{coded({'alg': 'EdDSA', 'typ': 'JWT', 'kid': 'd'})}.{coded(claims)}".encode()
        shown(f"{body.decode()}.{coded(ed_key().sign(body))}")

    def published(document: bytes) -> None:
        try:
            told = json.loads(document)
        except (ValueError, RecursionError) as error:  # as advisor.auth.jwks does
            raise Refused("no JSON") from error
        found = read_keys(told) if isinstance(told, dict) else ()
        for text in good:
            if (found_token := signed(text)) is not None:
                judge(found_token, found, RULES, NOW_S * 10**6)
        if not found:
            raise Refused("no keys")

    texts = tuple(text.encode() for text in good)
    yield Target("token", "advisor.auth.oidc", texts, of_text(shown), (Refused,))
    yield Target("signed claims", "advisor.auth.oidc", (json.dumps(CLAIMS).encode(),), claimed, (Refused,))
    yield Target("JWKS", "advisor.auth.oidc", (json.dumps(KEYS).encode(),), published, (Refused,))


def _beside_snapshots(folder: Path) -> Iterator[Target]:
    publish(folder / "snapshots", snapshot(11, pinned=0.5))
    yield in_folder("snapshot", "advisor.cluster.snapshot", folder / "snapshots", load_current, (AdvisorError,))
    write_report(folder / "told", told(diagnosis(), diagnosis("web-2")))
    yield in_folder("diagnoses", "advisor.diagnosis.report_file", folder / "told", read_report, (UnreadableDiagnoses,))
    keep_ladders(folder / "ladders", "c", 1, (Ladder("web-1", (), "look at it"),))
    yield in_folder("ladders", "advisor.remediation.options_file", folder / "ladders", _ladder, (Unavailable,))
    inputs = Inputs(snapshot(11), _NAMES, _NAMES, (diagnosis(),), (), PlanRules(), (0.5, 0.0), "b", 1)
    keep(folder / "plans" / "p1", inputs)
    yield in_folder(
        "kept plan", "cohabit.plans.plan_inputs", folder / "plans" / "p1", kept, (CohabitError, AdvisorError)
    )
    write_table(folder / "table" / "scores", _scores())
    yield in_folder("score table", "advisor.scoring.score_table_file", folder / "table", _table, (NoTable,))
    line = Advised(1, "c", "u", "web", False, 1, 0, "b", 0.0, False, None, "n0", ["n0"], [10], [0.0], [0.0])
    arms = [msgspec.structs.replace(line, held_out=arm, holdout_share=0.5) for arm in (True, False)]
    _put(folder / "advised" / "1.jsonl", b"".join(msgspec.json.encode(arm) + b"\n" for arm in arms))
    refuses = (CohabitError,)
    yield in_folder("advised lines", "advisor.placement.decision_log", folder / "advised", trial_lines, refuses)
    served = {"cluster": "c", "as_of_us": 5, "profiles_us": 0, "node": "n0", "app": "web", "team": None}
    features = [None, *(0.5 for _ in RAW_NAMES[1:])]
    _put(folder / "served" / "1.jsonl", msgspec.json.encode({**served, "best_effort": False, "features": features}))
    yield in_folder(
        "served lines",
        "cohabit.lifecycle.training_serving_skew",
        folder / "served",
        read_served,
        (CohabitError,),
    )


_NAMES = pa.table({"node": ["n0", "n1"], "container": ["u0", None], "seen": [0.5, 1.5]})


def _scores() -> ScoreTable:
    nodes, classes = ("n0", "n1"), (PodClass("", False), PodClass("web", True, "blue"))
    return ScoreTable(
        version=1,
        as_of_us=5,
        bundle="b",
        nodes=nodes,
        known=np.ones(2, np.bool_),
        classes=classes,
        points=np.ones((2, 2), np.uint8),
        cost=np.ones((2, 2), np.float32),
        platform=np.zeros(2, np.int16),
        steps=np.ones((3, 2, 1), np.float32),
    )


def _table(folder: Path) -> object:
    return read_table(folder / "scores")


def _put(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def _ladder(folder: Path) -> object:
    return kept_ladder(folder, "web-1")


def _bundle(folder: Path) -> Iterator[Target]:
    entry = ModelEntry(
        files={"mean": "mean.onnx", "spread": "spread.onnx"},
        features=("llc_pressure", "hour"),
        signs=(1, 0),
        medians={"llc_pressure": 0.1 + 0.2},
        calibration=Calibration(0.9, 1.3, 1.9, 2.2, rows=1000, groups=12, node_windows=300),
    )
    manifest = Manifest(
        created_at=T0,
        models={"placement": entry},
        catalogue_hash="c1",
        training_window=(T0, T0),
        data_fingerprint="d1",
        platforms=("epyc",),
        metrics={"leave_group_out": {"ours": {"mae_log": Estimate(0.1, 0.05, 0.2)}}},
    )
    refuses = BundleCorrupt, ModelsError
    write_bundle(folder / "one", manifest, FILES)
    write_bundle(folder / "sealed", manifest, FILES)
    yield in_folder("bundle", "models.bundle.bundle", folder / "one", read_bundle, refuses)
    yield in_folder("sealed bundle", "models.bundle.manifest", folder / "sealed", _sealed, refuses, (MANIFEST,))


def _sealed(folder: Path) -> object:
    """A bundle whose seal was made after its manifest was broken."""
    (folder / SEAL).write_text(sha256((folder / MANIFEST).read_bytes()).hexdigest())
    return read_bundle(folder)


def _site(folder: Path) -> Iterator[Target]:
    with migrated_store(folder / "store.sqlite") as store:
        places = _closed_month(folder / "places", store)
        lines = {"lines": places.folders["lines"]}  # the lake's files are many, and checked as these are
        back_up(replace(places, folders=lines), folder / "backup", _quietly)
    refuses = (CohabitError,)
    yield in_folder("backup", "cohabit.backup.archive", folder / "backup", lambda of: verify(of, _quietly), refuses)
    billed_lines = folder / "places" / "lines"
    inputs, billed = (sorted(billed_lines.glob(f"*{suffix}"))[:1] for suffix in (SUFFIX, ".parquet"))
    files = inputs[0].name, billed[0].name
    yield in_folder("billed inputs", "cohabit.billing.inputs", billed_lines, _inputs, (CohabitError,), files[:1])
    yield in_folder(
        "line file",
        "advisor.billing.lines.parquet",
        billed_lines,
        lambda of: read_lines(of / files[1]),
        (Unavailable,),
        files[1:],
    )
    yield _explained(folder / "store.sqlite", billed_lines, f"{billed[0].stem[:12]}-0")


def _closed_month(folder: Path, store: Engine) -> Places:
    """A site with one, and with what its lines were made of."""
    places = Places("c", {name: folder / name for name in ("lines", "lake")}, store)
    entry = Entry(0, "ann", "finance", "x", "y", "done", "r")
    lake = lake_of(folder / "lake", rows(), pool_rows())
    book_store.propose(store, price_book(), START_US - HOUR_US, entry)
    book_store.approve(store, PERIOD, "bob", START_US - HOUR_US, entry)
    closing, books = Closing(store, "c", lambda: NOW_US), book_store.books(store)
    drafted = draft_of(lake, "c", PERIOD, books=books, folder=folder / "lines", progress=lambda *_: None)
    closing.close(PERIOD, closing.begin(drafted, 0, ANN).digest, BOB)
    return places


def _quietly(_what: str, _done: int, _of: int) -> None:
    pass


def _inputs(folder: Path) -> object:
    return [read_inputs(folder, path.stem) for path in folder.glob(f"*{SUFFIX}")]


def _explained(store: Path, lines_folder: Path, reference: str) -> Target:
    def read(told: str) -> object:
        with open_store(str(store)) as engine:
            return _explain(engine, told, lines_folder)

    return Target(
        "line reference", "cohabit.billing.statements.explain", (reference.encode(),), of_text(read), (CohabitError,)
    )


def _explain(engine: Engine, told: str, folder: Path) -> object:
    return explain(engine, "c", told, folder)
