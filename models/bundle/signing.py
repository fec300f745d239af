"""Signing: who may have trained a bundle, by an Ed25519 signature of its manifest, which has all digests. An edge.

Only a process that signs or asks for signatures imports cryptography.
"""

import binascii
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from models.errors import ModelsError

PRIVATE, PUBLIC = "bundles.key", "bundles.pub"


@dataclass(frozen=True)
class Trust:
    """Raw public keys, 32 bytes each, of those whose bundles are believed; none believes every bundle."""

    keys: tuple[bytes, ...] = ()

    def verify(self, directory: Path, described: bytes, signature: bytes | None) -> None:
        """Raise ModelsError unless one of the keys signed a manifest."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        if signature is None:
            raise _unsigned(directory, "has no signature")
        try:
            raw = b64decode(signature, validate=True)
        except binascii.Error as error:
            raise _unsigned(directory, "has a signature that is none") from error
        for key in self.keys:
            try:
                return Ed25519PublicKey.from_public_bytes(key).verify(raw, described)
            except InvalidSignature:
                continue
        raise _unsigned(directory, "is not signed by anybody who is trusted")


ANYBODY = Trust()


def trust_of(files: Iterable[Path]) -> Trust:
    """Believe bundles that the holders of these public keys signed, PEM each.

    Raises:
        ModelsError: a file holds no such key.
    """
    return Trust(tuple(_public(path) for path in files))


def signer_of(file: Path) -> Callable[[bytes], bytes]:
    """Signs by the private key of a PEM file: bytes to a signature in base64.

    Raises:
        ModelsError: the file holds no such key.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(file.read_bytes(), None)
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise _bad_key(file, _reason(error)) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise _bad_key(file, "it is a key of another kind")
    return lambda content: b64encode(key.sign(content))


def make_keys(folder: Path) -> tuple[Path, Path]:
    """A new pair: the private key, which its owner alone can read, and the public one. Nothing is overwritten.

    Raises:
        FileExistsError: there is one already.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

    key = Ed25519PrivateKey.generate()
    folder.mkdir(parents=True, exist_ok=True)
    private, public = folder / PRIVATE, folder / PUBLIC
    private.touch(mode=0o600, exist_ok=False)
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return private, public


def _public(path: Path) -> bytes:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(path.read_bytes())
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise _bad_key(path, _reason(error)) from error
    if not isinstance(key, Ed25519PublicKey):
        raise _bad_key(path, "it is a key of another kind")
    return key.public_bytes_raw()


def _reason(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else "it cannot be read"


def _unsigned(directory: Path, reason: str) -> ModelsError:
    return ModelsError(
        f"bundle {directory} {reason}: train it where COHABIT_SIGNING__KEY is set, or add the key of who signed it to "
        "COHABIT_SIGNING__TRUSTED_KEYS"
    )


def _bad_key(path: Path, reason: str) -> ModelsError:
    return ModelsError(f"{path} is no Ed25519 key in PEM ({reason}): `cohabit model keys FOLDER` makes a pair")
