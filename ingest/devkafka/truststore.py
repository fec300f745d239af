"""Hand the machine's certificate authorities to a Java that came without them.

The Java of a Python package trusts only the authorities it was built with; a company's own, which pip and Python find
through SSL_CERT_FILE or /etc, are unknown to it.
"""

import ssl
import struct
from hashlib import sha1
from os import environ
from pathlib import Path

MAGIC, VERSION, CERTIFICATE = 0xFEEDFEED, 2, 2
PASSWORD = "changeit"  # noqa: S105  (Java's public default: it guards nothing, it is the format's checksum)
BUNDLES = (Path("/etc/ssl/certs/ca-certificates.crt"), Path("/etc/pki/tls/certs/ca-bundle.crt"))


def authorities() -> list[bytes]:
    """DER certificates of the machine's bundle; empty where none is found."""
    named = (environ.get("SSL_CERT_FILE"), ssl.get_default_verify_paths().cafile)
    places = (*(Path(name) for name in named if name), *BUNDLES)
    bundle = next((path for path in places if path.is_file()), None)
    if bundle is None:
        return []
    return ssl.create_default_context(cafile=str(bundle)).get_ca_certs(binary_form=True)


def java_truststore(certificates: list[bytes]) -> bytes:
    """The certificates in Java's own store format (JKS), under its default password."""
    body = struct.pack(">III", MAGIC, VERSION, len(certificates))
    for i, der in enumerate(certificates):
        created_ms = struct.pack(">Q", 0)
        body += struct.pack(">I", CERTIFICATE) + _text(f"authority-{i}") + created_ms
        body += _text("X.509") + struct.pack(">I", len(der)) + der
    salted = PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + body
    return body + sha1(salted, usedforsecurity=False).digest()


def _text(value: str) -> bytes:
    return struct.pack(">H", len(value)) + value.encode()
