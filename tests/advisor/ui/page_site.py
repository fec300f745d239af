"""A running `cohabit serve` with pages, and what tests do to its store."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from secrets import token_bytes, token_hex
from time import monotonic, time_ns

from httpx2 import Client, ConnectError

from advisor.auth.api_tokens import TokenRole, shown
from advisor.auth.audit_log import Entry, entries
from advisor.auth.session_store import open_session
from advisor.auth.token_store import Doer, create_token, find_token, revoke_token
from advisor.cluster.snapshot import Snapshot, publish
from advisor.database.engine import open_store
from advisor.diagnosis.report_file import DiagnosisReport, write_report
from tests.advisor.commands import environment
from tests.advisor.stores import migrated_file

HOUR_US = 3600 * 10**6


@dataclass(frozen=True)
class Site:
    """Where it listens, and the folder it serves from."""

    main: str
    folder: Path

    @property
    def store(self) -> str:
        return str(self.folder / "store.sqlite")

    def token(self, name: str, role: TokenRole = "sre") -> str:
        """A new one, good for an hour."""
        now_us = time_ns() // 1000
        with open_store(self.store) as store:
            doer = Doer("local:test", now_us, "test")
            team = "shop" if role == "team" else None
            more = {"expires_us": now_us + HOUR_US, "doer": doer, "random_bytes": token_bytes, "team": team}
            return create_token(store, name, role, **more)  # type: ignore[arg-type]

    def session(self, name: str, role: TokenRole) -> str:
        """What the cookie says of somebody logged in with a new token."""
        cookie, now_us, asked = token_hex(32), time_ns() // 1000, shown(self.token(name, role))
        assert asked is not None
        with open_store(self.store) as store:
            token = find_token(store, asked, now_us).token
            assert token is not None
            open_session(store, sha256(cookie.encode()).digest(), token, now_us=now_us, request_id="test")
        return cookie

    def revoke(self, name: str) -> None:
        with open_store(self.store) as store:
            revoke_token(store, name, Doer("local:test", time_ns() // 1000, "test"))

    def audit(self) -> list[Entry]:
        with open_store(self.store) as store:
            return list(entries(store))


@contextmanager
def site(folder: Path, snapshot: Snapshot, told: DiagnosisReport | None, *, auth: str = "token") -> Iterator[Site]:
    """A server over a cluster, ended with the block; it has taken up the snapshot."""
    publish(folder / "snapshots", snapshot)
    if told is not None:
        write_report(folder / "snapshots", told)
    store = migrated_file(folder / "store.sqlite")
    own = environment(folder, database=store, advisor__auth=auth)
    command = [sys.executable, "-m", "cohabit", "serve"]
    with subprocess.Popen(command, env=own, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            main, _ = re.findall(r"http://[\d.:]+", process.stdout.readline())
            _until_alive(main)
            yield Site(main, folder)
        finally:
            process.terminate()


def _until_alive(main: str) -> None:
    deadline = monotonic() + 120
    with Client() as client:
        while monotonic() < deadline:
            try:
                if client.get(f"{main}/healthz").status_code == 200:
                    return
            except ConnectError:
                continue
    raise TimeoutError(main)
