"""Asking: every question that a server of the line answers, over real connections, the same ones each time.

In: ports of a server and the map of names. Out: replies by what was asked. Routes and fields stand here by their names
from before the renaming; what is sent is translated.
"""

import contextlib
import http.client
import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from same_records import Names


@dataclass
class Asker:
    """Who asks a server, over real connections, and keeps its replies."""

    ports: Mapping[str, int]
    names: Names
    work: Path
    replies: dict[str, dict[str, Any]] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    counted: dict[str, float] = field(default_factory=dict)

    def ask(self, name: str, listener: str, method: str, path: str, body: object = None) -> dict[str, Any]:
        """One request; a body that is no text is JSON, whose own fields are translated."""
        path = self.names.routed(path)
        said = self.names.new("field") | self.names.new("part")
        path = re.sub(r"(?<=[?&=])\w+", lambda found: said.get(found[0], found[0]), path)
        text = body if isinstance(body, str | None) else json.dumps(self._translated(body, path))
        kind = "application/x-www-form-urlencoded" if path.startswith("/ui") else "application/json"
        connection = http.client.HTTPConnection("127.0.0.1", self.ports[listener], timeout=60)
        with contextlib.closing(connection):
            connection.request(method, path, text, {"Content-Type": kind} | self.headers)
            reply = connection.getresponse()
            kept = (
                "content-type",
                "location",
                "retry-after",
                "www-authenticate",
                "allow",
                "cache-control",
                "set-cookie",
            )
            found = {name.lower(): value for name, value in reply.getheaders() if name.lower() in kept}
            told = {"status": reply.status, "headers": found, "body": reply.read().decode(errors="replace")}
        self.replies[" ".join([listener, *name.split()])] = told
        return told

    def warm(self) -> None:
        """Ask once for every class of newcomers, and wait until the table of scores holds all of them.

        Until then answers come from wherever is quicker; what was counted meanwhile is taken off, see `metrics`.
        """
        for number, body in prioritize_bodies(200):
            if isinstance(body, dict):
                body["Pod"]["metadata"]["uid"] = ""
            self.ask(f"warm {number}", "scheduler", "POST", "/extender/prioritize", body)
            self.ask(f"warm {number}", "scheduler", "POST", "/volcano/prioritize", volcano_of(body))
        whole, text = rf"^{self.metric('cohabit_table_classes')} {CLASSES}", ""
        ends = monotonic() + 120
        while not re.search(whole, text, re.MULTILINE) and monotonic() < ends:
            sleep(0.2)
            text = self.ask("warm metrics", "people", "GET", "/metrics")["body"]
        sleep(2)
        for log in self.work.glob("snapshots/*/*.jsonl"):
            log.unlink()
        text = self.ask("warm metrics", "people", "GET", "/metrics")["body"]
        self.counted = self._answers(text)
        self.replies = {name: told for name, told in self.replies.items() if " warm " not in name}

    def metric(self, name: str) -> str:
        """A metric as this checkout calls it."""
        return self.names.new("metric").get(name, name)

    def _answers(self, text: str) -> dict[str, float]:
        rows = re.findall(rf"^({self.metric('cohabit_answers_total')}{{.*}}) (.*)", text, re.MULTILINE)
        return {name: float(value) for name, value in rows}

    def metrics(self, name: str) -> None:
        """Metrics, with those answers counted that were asked for since the table was whole."""
        told = self.ask(name, "people", "GET", "/metrics")
        since = {of: count - self.counted.get(of, 0) for of, count in self._answers(told["body"]).items()}
        began = self.metric("cohabit_answers_total").replace("_total", "_created{")
        lines = [line for line in told["body"].splitlines() if line.partition("} ")[0] + "}" not in since]
        lines = [line for line in lines if not line.startswith(began)]
        told["body"] = "\n".join([*lines, *(f"{of} {count}" for of, count in sorted(since.items()) if count)])

    def _translated(self, body: object, path: str) -> object:
        fields = self.names.new("field") if re.match(r"/(v1|bookings|assumed-pods)", path) else {}
        if isinstance(body, dict):
            return {fields.get(key, key): self._translated(value, path) for key, value in body.items()}
        return [self._translated(one, path) for one in body] if isinstance(body, list) else body

    def wait(self, *, ready: bool) -> None:
        """Until the server is ready, or has settled where it never will be."""
        ends = monotonic() + (60 if ready else 3)
        while monotonic() < ends:
            with contextlib.suppress(OSError):
                if self.ask("readyz", "people", "GET", "/readyz")["status"] == 200:
                    break
            sleep(0.2)
        sleep(1)


def prioritize_bodies(count: int) -> Iterator[tuple[str, Any]]:
    """Bodies of a scheduler's requests, each otherwise: apps, nodes, gangs, labels, owners, and what is broken."""
    rng = random.Random(7)  # noqa: S311
    nodes, apps = [f"node-{n:04d}" for n in range(6)], [*(f"app-{n:03d}" for n in range(9)), "app-new", ""]
    for number in range(count):
        app, offered = rng.choice(apps), rng.sample(nodes, rng.randint(0, 6))
        meta: dict[str, Any] = {
            "name": f"p{number}",
            "uid": f"uid-{number % 190}" if number % 8 == 1 else "",
            "namespace": "shop",
        }
        meta["labels"] = rng.choice([{"app": app}, {"app.kubernetes.io/name": app}, {"app": app, "qos": "BE"}, None])
        if number % 5 == 0:
            meta["labels"] = {"app": app, "scheduling.x-k8s.io/pod-group": f"gang-{number % 3}", "team": "team-1"}
        if number % 7 == 0:
            meta["annotations"] = {"scheduling.k8s.io/group-name": f"gang-{number % 2}"}
            meta["ownerReferences"] = [{"kind": "ReplicaSet", "name": f"{app}-7d4b9c6f58", "controller": True}]
        body: Any = {"Pod": {"metadata": meta, "spec": {}}, "Nodes": None, "NodeNames": offered}
        if number % 11 == 0:
            items = [{"metadata": {"name": name, "labels": {"zone": "z0"}}} for name in [*offered, "node-unknown"]]
            body |= {"Nodes": {"items": items}, "NodeNames": None}
        broken = ["", "{", "[]", "null", '{"Pod": 3}', json.dumps(body)[:-5], '{"NodeNames": "n"}', "[" * 5000]
        yield f"{number:03d}", broken[number // 13 % len(broken)] if number % 13 == 12 else body


def volcano_of(body: Any) -> Any:
    """The same question in Volcano's types."""
    if not isinstance(body, dict):
        return body
    named = body["NodeNames"] or [node["metadata"]["name"] for node in (body["Nodes"] or {"items": []})["items"]]
    return {
        "task": {"UID": body["Pod"]["metadata"]["uid"], "Pod": body["Pod"]},
        "nodes": [{"Name": name} for name in named],
    }


READ = re.findall(
    r"\S+",
    """
/healthz /readyz /openapi.json /nowhere /v1/halt /v1/prices /v1/budgets?month=2026-03
/v1/victims /v1/victims?limit=3 /v1/victims?verdict=culprit /v1/victims?limit=x
/v1/victims/c000290 /v1/victims/nobody /v1/victims/c000433/ladder
/v1/proposals /v1/proposals?state=drafted /v1/proposals/PLAN /v1/proposals/none
/v1/statements /v1/statements/2026-03 /v1/statements/2026-03/team?team=team-0 /v1/statements/2031-01
/ui/ /ui/login /ui/cluster /ui/cluster/map /ui/cluster?by=membw /ui/nodes/node-0004 /ui/nodes/none
/ui/victims /ui/victims/c000290 /ui/victims/nobody /ui/proposals /ui/proposals/PLAN /ui/prices /ui/quotes
/ui/bills /ui/bills/2026-03 /ui/bills/2026-03/team?team=team-0 /ui/bills/2026-03/lines.csv?team=team-3
/ui/bills/2026-03/container?team=team-0&container=c000010
""",
)
CLASSES = 12
"""Of newcomers, in bodies of requests: so many a table of scores holds once it is whole."""
SETTLED_S = 0.5
"""How long a server may take to correct scores of the node where it sends a pod that has a uid; it does so beside."""
SCORES: Sequence[object] = (
    {"app": "app-000", "nodes": ["node-0000", "node-0004"]},
    {"app": "app-003"},
    {"app": "app-new", "team": "team-1", "best_effort": True, "nodes": ["node-0001", "node-none", "node-0001"]},
    {"app": "", "nodes": []},
    {"app": "app-000", "what": 1},
    "{",
)
QUOTES: Sequence[object] = (
    {"team": "team-1", "app": "app-004", "node": "node-0001", "resources": {"cpu": {"request": 4, "use": 3}}},
    {"container": "c000433", "move_to": "node-0000", "hours": 24},
    {"container": "c000433", "resources": {"cpu": {"request": 6}}},
    {"team": "team-1", "resources": {}},
)


def ask_everything(asker: Asker, name: str, plan: str) -> None:
    """All questions; of a stale server a few, of one with tokens as each of their holders."""
    count = 200 if name == "online" else 12
    for number, body in prioritize_bodies(count):
        asker.ask(f"prioritize {number}", "scheduler", "POST", "/extender/prioritize", body)
        if int(number) % 8 == 1:
            sleep(SETTLED_S)
        if name == "online" and int(number) % 4 == 0:
            asker.ask(f"filter {number}", "scheduler", "POST", "/extender/filter", body)
            asker.ask(f"volcano {number}", "scheduler", "POST", "/volcano/prioritize", volcano_of(body))
    booked = {"uid": "b1", "node": "node-0001", "app": "app-001", "best_effort": False, "age_us": 5, "team": "team-1"}
    asker.ask("bookings", "scheduler", "POST", "/bookings", [booked])
    asker.ask("bookings broken", "scheduler", "POST", "/bookings", [{"uid": 1}])
    for path in ("/watcher", "/watcher?host=node-0001", "/openapi.json", "/nowhere"):
        asker.ask(path, "scheduler", "GET", path)
    for holder in ("nobody", "fin", "ops", "team", "gone") if name == "tokens" else ("",):
        if (token := asker.work / f"{holder}.token").exists():
            asker.headers = {"Authorization": f"Bearer {token.read_text().split()[0]}"}
        for path, bodies in (("/v1/scores", SCORES), ("/v1/quotes", QUOTES)):
            for index, ask in enumerate(bodies):
                asker.ask(f"{holder} {path} {index}", "people", "POST", path, ask)
        for path in READ:
            asker.ask(f"{holder} {path}", "people", "GET", path.replace("PLAN", plan))
        asker.metrics(f"{holder} metrics")
        rejected = {"version": 9, "reason": "too late"}
        asker.ask(f"{holder} reject", "people", "POST", f"/v1/proposals/{plan}/reject", rejected)
        asker.ask(f"{holder} halt", "people", "POST", "/v1/halt", {"reason": "a drill"})
        asker.ask(f"{holder} resume", "people", "POST", "/v1/resume", {})
