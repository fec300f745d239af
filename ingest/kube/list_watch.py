"""Lists and watches of the Kubernetes API, by its own client: pages, events, and what can go wrong. An edge.

The client's own Watch is not used: it skips lines it cannot read and asks again by itself, without telling.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event, Lock
from typing import Any, NamedTuple

import orjson
from urllib3.exceptions import HTTPError

from ingest.kube.yaml_depth import refuse_deep
from ingest.schema.errors import ClusterRefused, ClusterUnanswered, IngestError, PositionExpired

PAGE = 500
WATCH_S = 300
"""The server is asked to end a watch after so long."""
CONNECT_S = 10
SILENCE_S = WATCH_S + 30
"""A connection that says nothing for so long is dead."""
IN_CLUSTER = "KUBERNETES_SERVICE_HOST"
"""Set by Kubernetes in every pod."""
GONE = 410
REFUSALS = (401, 403, 404)


class Page(NamedTuple):
    """A part of a list, and the version that the whole list has."""

    items: list[object]
    version: str


@dataclass(slots=True)
class Feed:
    """One resource of the API, of all namespaces or of one.

    Args:
        what: what it is called in messages.
        call: the client's list function; it is not typed.
        page: most objects asked for at once.
    """

    what: str
    call: Callable[..., Any]
    page: int = PAGE
    _response: Any = None
    _lock: Lock = field(default_factory=Lock)

    def pages(self, **selectors: str) -> Iterator[Page]:
        """Everything there is that field and label selectors select, page by page.

        Raises:
            PositionExpired: it took so long that the rest is no longer served: begin anew.
            ClusterRefused: we may not read it.
            ClusterUnanswered: the server failed or cannot be reached.
        """
        token: str | None = None
        while token is None or token:
            body = self._read(self._open(limit=self.page, _continue=token, **selectors))
            meta, items = body.get("metadata"), body.get("items")
            if not isinstance(meta, dict) or not isinstance(meta.get("resourceVersion"), str):
                raise ClusterUnanswered(self.what, "its answer is no list with a version")
            token = str(meta.get("continue") or "")
            yield Page(items if isinstance(items, list) else [], meta["resourceVersion"])

    def events(self, version: str, stop: Event) -> Iterator[dict[str, object]]:
        """What happened after a version, until the connection ends; an unfinished last line is not read.

        Raises:
            PositionExpired: the server no longer knows that version, or a line cannot be read.
            ClusterRefused: we may not read it.
            ClusterUnanswered: the server failed, broke off or cannot be reached.
        """
        asked = {"resource_version": version, "allow_watch_bookmarks": True, "timeout_seconds": WATCH_S}
        response = self._open(watch=True, **asked)
        try:
            self._hold(response)
            if stop.is_set():
                return
            for line in self._lines(response):
                if stop.is_set():
                    return
                yield self._event(line)
        finally:
            self._hold(None)
            response.close()

    def interrupt(self) -> None:
        """End the watch at hand as if the server had."""
        with self._lock, suppress(OSError, RuntimeError, ValueError):  # it has just ended, or the server reset it
            if self._response is not None:
                self._response.shutdown()

    def _hold(self, response: Any) -> None:
        with self._lock:
            self._response = response

    def _open(self, **asked: object) -> Any:
        from kubernetes.client import ApiException

        given = {name: value for name, value in asked.items() if value is not None}
        try:
            response = self.call(**given, _preload_content=False, _request_timeout=(CONNECT_S, SILENCE_S))
        except ApiException as error:
            raise self._failure(int(error.status or 0), str(error.reason)) from error
        except HTTPError as error:
            raise ClusterUnanswered(self.what, str(error)) from error
        if response.status != 200:
            response.close()
            raise self._failure(response.status, str(response.reason))
        return response

    def _read(self, response: Any) -> dict[str, object]:
        try:
            body = orjson.loads(response.read())
        except (HTTPError, orjson.JSONDecodeError) as error:
            raise ClusterUnanswered(self.what, str(error)) from error
        finally:
            response.release_conn()
        return body if isinstance(body, dict) else {}

    def _lines(self, response: Any) -> Iterator[bytes]:
        rest = b""
        try:
            for chunk in response.stream(amt=None):
                *lines, rest = (rest + chunk).split(b"\n")
                yield from lines
        except HTTPError as error:
            raise ClusterUnanswered(self.what, str(error)) from error

    def _event(self, line: bytes) -> dict[str, object]:
        try:
            event = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise PositionExpired(self.what, f"a line is not JSON: {line[:60]!r}") from error
        if not isinstance(event, dict):
            raise PositionExpired(self.what, f"a line is no event: {line[:60]!r}")
        if event.get("type") == "ERROR":
            found = event.get("object")
            status = found if isinstance(found, dict) else {}
            code = status.get("code")
            raise self._failure(code if isinstance(code, int) else 500, str(status.get("message")))
        return event

    def _failure(self, status: int, reason: str) -> PositionExpired | ClusterRefused | ClusterUnanswered:
        if status == GONE:
            return PositionExpired(self.what, reason)
        if status in REFUSALS:
            return ClusterRefused(self.what, status, reason)
        return ClusterUnanswered(self.what, reason, status)


def pod_feed(api: Any, namespace: str | None = None, *, page: int = PAGE) -> Feed:
    """Pods of one namespace, or of all."""
    if namespace is None:
        return Feed("pods", api.list_pod_for_all_namespaces, page)
    return Feed(f"pods of {namespace}", partial(api.list_namespaced_pod, namespace), page)


def node_feed(api: Any, *, page: int = PAGE) -> Feed:
    """All nodes."""
    return Feed("nodes", api.list_node, page)


def budget_feed(api: Any, namespace: str | None = None, *, page: int = PAGE) -> Feed:
    """Disruption budgets of one namespace, or of all, by the client of a CoreV1Api."""
    from kubernetes import client

    policy = client.PolicyV1Api(api.api_client)
    if namespace is None:
        return Feed("disruption budgets", policy.list_pod_disruption_budget_for_all_namespaces, page)
    call = partial(policy.list_namespaced_pod_disruption_budget, namespace)
    return Feed(f"disruption budgets of {namespace}", call, page)


def core_api(kubeconfig: Path | None, context: str | None, *, in_cluster: bool) -> Any:
    """The client's CoreV1Api: of the pod's own service account, or of a configuration file.

    Raises:
        IngestError: neither names a cluster.
    """
    from kubernetes import client, config
    from yaml import YAMLError

    settings = client.Configuration()
    path = None if kubeconfig is None else str(kubeconfig)
    loaders: Any = config
    try:
        if in_cluster and kubeconfig is None and context is None:
            loaders.load_incluster_config(client_configuration=settings)
        else:
            for named in _configurations(path):
                refuse_deep(named.read_bytes())
            loaders.load_kube_config(path, context, client_configuration=settings, persist_config=False)
    except (config.ConfigException, YAMLError, OSError) as error:
        raise _no_cluster(str(error)) from error
    except (TypeError, ValueError, AttributeError, LookupError, RecursionError) as error:
        raise _no_cluster(f"it is YAML, but no configuration ({type(error).__name__})") from error
    settings.retries = False  # a retry of the client's own would hide that a watch broke off
    return client.CoreV1Api(client.ApiClient(settings))


def _configurations(path: str | None) -> list[Path]:
    """Files that the client reads its configuration from, of which several may be named in KUBECONFIG."""
    from kubernetes.config.kube_config import ENV_KUBECONFIG_PATH_SEPARATOR, KUBE_CONFIG_DEFAULT_LOCATION

    names = (path or KUBE_CONFIG_DEFAULT_LOCATION).split(ENV_KUBECONFIG_PATH_SEPARATOR)
    return [named for name in names if name and (named := Path(name).expanduser()).is_file()]


def _no_cluster(reason: str) -> IngestError:
    return IngestError(
        f"no Kubernetes cluster to watch ({reason}): run inside a pod with a service account, or name a configuration "
        "with --kubeconfig and --context"
    )
