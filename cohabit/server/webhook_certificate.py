"""Webhook certificate: an authority and a certificate for clusters without cert-manager. An edge.

The authority's key is not kept: to renew, make both again and replace `caBundle`.
"""

import os
import tempfile
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

EARLY = timedelta(hours=1)
"""Before now, since clocks differ."""
PEM = serialization.Encoding.PEM


class WebhookFiles(NamedTuple):
    """PEM files: the authority for `caBundle`, and certificate and key of the listener."""

    ca: Path
    certificate: Path
    key: Path


def webhook_files(folder: Path) -> WebhookFiles:
    """Where a folder has them."""
    return WebhookFiles(folder / "ca.crt", folder / "tls.crt", folder / "tls.key")


def write_webhook_files(folder: Path, names: Sequence[str], days: int, now: datetime) -> WebhookFiles:
    """Make an authority and a certificate that it signed for DNS names, on P-256.

    Args:
        folder: where ca.crt, tls.crt and tls.key go, in the place of former ones; only the owner may read the key.
        names: DNS names by which kube-apiserver reaches the listener.
        days: until both end.
        now: the time, aware.

    Raises:
        OSError: a file cannot be written.
    """
    authority, own = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer, subject = _called("cohabit-admission-ca"), _called(names[0])
    until = now + timedelta(days=days)

    def signed(of: ec.EllipticCurvePublicKey, name: x509.Name, *more: tuple[x509.ExtensionType, bool]) -> bytes:
        made = x509.CertificateBuilder(issuer, name, of, x509.random_serial_number(), now - EARLY, until)
        for extension, critical in more:
            made = made.add_extension(extension, critical)
        return made.sign(authority, hashes.SHA256()).public_bytes(PEM)

    alternatives = x509.SubjectAlternativeName([x509.DNSName(name) for name in names])
    purpose = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    of_authority = x509.SubjectKeyIdentifier.from_public_key(authority.public_key())
    by = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(of_authority)
    usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
    rules = ((x509.BasicConstraints(ca=True, path_length=0), True), (usage, True), (of_authority, False))
    key = own.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    files = webhook_files(folder)
    folder.mkdir(parents=True, exist_ok=True)
    files.ca.write_bytes(signed(authority.public_key(), issuer, *rules))
    leaf = x509.BasicConstraints(ca=False, path_length=None), True
    files.certificate.write_bytes(
        signed(own.public_key(), subject, (alternatives, False), (purpose, False), leaf, (by, False))
    )
    _write_secret(files.key, key)
    return files


def _write_secret(path: Path, content: bytes) -> None:
    """A new file that only the owner may read, in the place of a former one, whose mode may be wider."""
    number, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(content)
        Path(temporary).replace(path)
    finally:
        Path(temporary).unlink(missing_ok=True)


def _called(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])
