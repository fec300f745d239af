"""A little issuer: a real HTTP server on loopback with real keys, that can rotate them, go down, or misbehave."""

import json
import threading
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ssl import SSLContext

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ec import generate_private_key as new_ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key as new_rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

Private = RSAPrivateKey | EllipticCurvePrivateKey | Ed25519PrivateKey
Json = dict[str, object]
DISCOVERY = "/.well-known/openid-configuration"


@cache
def rsa_key(bits: int = 2048, number: int = 0) -> RSAPrivateKey:
    """Made once a run: it takes a while."""
    return new_rsa(65537, bits)


@cache
def ec_key() -> EllipticCurvePrivateKey:
    return new_ec(SECP256R1())


@cache
def ed_key() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.generate()


def public_jwk(private: Private, **more: object) -> Json:
    """The public part, as an issuer publishes it."""
    if isinstance(private, RSAPrivateKey):
        jwk = RSAAlgorithm.to_jwk(private.public_key(), as_dict=True)
    elif isinstance(private, Ed25519PrivateKey):
        jwk = OKPAlgorithm.to_jwk(private.public_key(), as_dict=True)
    else:
        jwk = ECAlgorithm.to_jwk(private.public_key(), as_dict=True)
    return {**{name: value for name, value in jwk.items() if name != "key_ops"}, **more}


def coded(part: object) -> str:
    """One part of a token, which may be anything."""
    whole = part if isinstance(part, bytes) else json.dumps(part).encode()
    return urlsafe_b64encode(whole).rstrip(b"=").decode()


def token(claims: object, key: object, algorithm: str = "RS256", **head: object) -> str:
    """A token with whatever head and claims, signed."""
    signer = jwt.get_algorithm_by_name(algorithm)
    body = f"{coded({'alg': algorithm, 'typ': 'JWT', **head})}.{coded(claims)}"
    return f"{body}.{coded(signer.sign(body.encode(), key))}"


@dataclass
class LittleIssuer:
    """What it answers, by path, and how often it was asked.

    Args:
        url: its name.
        pages: (status, body, headers) by path.
    """

    url: str = ""
    pages: dict[str, tuple[int, bytes, dict[str, str]]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    silent: threading.Event = field(default_factory=threading.Event)
    """Set while answers are given; requests wait for it."""

    def publish(self, *keys: Json, **more: object) -> None:
        """Its documents, with those keys."""
        self.say(DISCOVERY, {"issuer": self.url, "jwks_uri": f"{self.url}/keys", **more})
        self.say("/keys", {"keys": keys})

    def say(self, path: str, body: object, status: int = 200, *, length: str = "", **headers: str) -> None:
        """Answer so from now on; the length that is told may be a lie."""
        whole = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.pages[path] = status, whole, {"Content-Length": length or str(len(whole)), **headers}

    def times(self, path: str = "/keys") -> int:
        return self.asked.count(path)


@contextmanager
def running_issuer(port: int = 0, secured: SSLContext | None = None) -> Iterator[LittleIssuer]:
    """An issuer that answers until the end; another one may take its port then."""
    issuer = LittleIssuer()
    issuer.silent.set()

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuer.asked.append(self.path)
            issuer.silent.wait(30)
            status, body, headers = issuer.pages.get(self.path, (404, b"", {}))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """Whoever asked has gone."""

    with Server(("127.0.0.1", port), Answers) as server:
        if secured is not None:
            server.socket = secured.wrap_socket(server.socket, server_side=True)
        issuer.url = f"{'https' if secured else 'http'}://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield issuer
        finally:
            issuer.silent.set()
            server.shutdown()
            thread.join()
