"""Configuration checks: whether what settings name is there and can be used. An edge."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

from advisor.database.engine import check, open_store
from advisor.errors import AdvisorError
from advisor.scoring.loaded_model import open_model
from cohabit.config.errors import BadSettings
from cohabit.config.settings import Settings
from cohabit.doctor.finding import Finding, ok, problem, warning
from cohabit.terminal.db import address_of
from cohabit.terminal.locations import registry_of
from ingest.decode.metrics.known_metrics import EXPORTERS
from ingest.decode.metrics.mapping_file import read_mapping
from ingest.kafka_io.connection import context_of
from ingest.lake.folder import Folder
from ingest.lake.stores import store_of
from ingest.schema.errors import IngestError
from models.bundle.signing import signer_of
from models.errors import ModelsError

WAIT_S, MAX_PORT = 2.0, 65535
IN_THE_CLEAR = "PLAINTEXT: records can be read and changed on the network; brokers that can do better take SASL_SSL"


def findings(own: Settings) -> Iterator[Finding]:
    """What is well, and what has to be done before the line works; nothing is written."""
    if own.environment == "production":
        yield ok("COHABIT_ENVIRONMENT", "production; no unsafe default is left")
    else:
        yield warning("COHABIT_ENVIRONMENT", "development: set it to production where others depend on this")
    yield _lake(own.lake)
    folders = {"REGISTRY": own.registry, "SNAPSHOTS": own.snapshots, "BILLING__LEDGER_DIR": own.billing.ledger_dir}
    for name, folder in folders.items():
        yield _folder(f"COHABIT_{name}", folder)
    yield _store(own)
    if own.mapping is not None:
        yield _mapping(own.mapping)
    if own.signing.key is not None:
        yield _key(own.signing.key)
    yield _model(own)
    yield from _kafka(own)


def _folder(name: str, folder: Path) -> Finding:
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not there.is_dir():
        return problem(name, f"{there} is no folder: name another")
    if not os.access(there, os.W_OK | os.X_OK):
        return problem(name, f"{there} cannot be written by this user: change its owner, or name another")
    return ok(name, f"{folder}" if there == folder else f"{folder}, made when needed")


def _lake(uri: str) -> Finding:
    """A folder is not made; in a bucket one object is, and is deleted again."""
    try:
        store = store_of(uri)
        if isinstance(store, Folder):
            return _folder("COHABIT_LAKE", store.root)
        store.probe()
    except IngestError as error:
        return problem("COHABIT_LAKE", str(error))
    return ok("COHABIT_LAKE", f"{uri}; of two writers of one object exactly one succeeds")


def _store(own: Settings) -> Finding:
    try:
        with open_store(address_of(own)) as engine:
            check(engine)
    except AdvisorError as error:
        return problem("COHABIT_DATABASE", str(error))
    return ok("COHABIT_DATABASE", "answers, and is of this version")


def _mapping(path: Path) -> Finding:
    try:
        read_mapping(path, EXPORTERS)
    except (IngestError, OSError) as error:
        return problem("COHABIT_MAPPING", str(error))
    return ok("COHABIT_MAPPING", f"{path} can be read")


def _key(path: Path) -> Finding:
    try:
        signer_of(path)
    except ModelsError as error:
        return problem("COHABIT_SIGNING__KEY", str(error))
    return ok("COHABIT_SIGNING__KEY", f"{path} can sign")


def _model(own: Settings) -> Finding:
    try:
        registry = registry_of(own)
        if (current := registry.current()) is None:
            return warning("model", "none is promoted, so nothing is advised: `cohabit model train`")
        open_model(registry.bundle(current.name).directory, registry.trust)
    except (ModelsError, AdvisorError) as error:
        return problem("model", str(error))
    return ok("model", f"{current.name} is whole, and can be served")


def _kafka(own: Settings) -> Iterator[Finding]:
    yield from (_broker(server.strip()) for server in own.kafka.bootstrap.split(","))
    if own.kafka.protocol == "PLAINTEXT":
        yield from () if own.environment == "development" else (warning("COHABIT_KAFKA__PROTOCOL", IN_THE_CLEAR),)
        return
    try:
        brokers = own.kafka.brokers()
        if brokers.encrypts:
            context_of(brokers)
    except (BadSettings, OSError) as error:
        yield problem("COHABIT_KAFKA__PROTOCOL", f"{own.kafka.protocol}: {error}")
    else:
        yield ok("COHABIT_KAFKA__PROTOCOL", f"{own.kafka.protocol}; what goes with it can be read")


def _broker(server: str) -> Finding:
    host, _, port = server.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), _port(port)), WAIT_S):
            return ok("COHABIT_KAFKA__BOOTSTRAP", f"{server} answers")
    except ValueError:
        return problem("COHABIT_KAFKA__BOOTSTRAP", f"{server} is no host:port")
    except OSError as error:
        reason = error.strerror or str(error)
        return warning("COHABIT_KAFKA__BOOTSTRAP", f"{server} does not answer ({reason}): start it, or name another")


def _port(text: str) -> int:
    port = int(text)
    if not 0 < port <= MAX_PORT:
        raise ValueError(text)
    return port
