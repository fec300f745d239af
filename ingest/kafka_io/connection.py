"""Brokers: where Kafka is, how it is spoken to and as whom, in the words of each client. Facts.

With TLS a broker's certificate must be signed by `ca`, or by an authority that the machine trusts, and name the host
that is called; nothing switches that off. Clients in Java get certificates as text: executors of Spark need no files.

Source: Kafka 4, "Security"; KIP-651 for certificates in PEM.
"""

import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

READ_COMMITTED = "read_committed"
"""Isolation level of every consumer: records of a transaction are read once it is committed, and never if aborted."""
Protocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
PLAIN_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule"


@dataclass(frozen=True, slots=True)
class Brokers:
    """Brokers, and how they are reached.

    Args:
        servers: host:port, separated by commas.
        protocol: whether what is said is encrypted, and whether one says who one is by a password.
        ca: PEM of who signed the brokers' certificates; the machine's own authorities when left out.
        certificate: PEM of who we are, for brokers that ask for it.
        key: PEM of its key, PKCS #8 without a password.
        mechanism: how the password is proven.
        user: whose it is.
        password: what is proven.
    """

    servers: str
    protocol: Protocol = "PLAINTEXT"
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    mechanism: Mechanism = "SCRAM-SHA-512"
    user: str = ""
    password: str = field(default="", repr=False)

    def __str__(self) -> str:
        return self.servers

    @property
    def encrypts(self) -> bool:
        """Whether TLS is spoken."""
        return self.protocol in {"SSL", "SASL_SSL"}

    @property
    def asks(self) -> bool:
        """Whether one says who one is by a password."""
        return self.protocol in {"SASL_PLAINTEXT", "SASL_SSL"}


def for_python(brokers: Brokers | str) -> dict[str, object]:
    """Options of kafka-python's clients; an address alone is spoken to in the clear."""
    of = brokers if isinstance(brokers, Brokers) else Brokers(brokers)
    options: dict[str, object] = {"bootstrap_servers": of.servers.split(","), "security_protocol": of.protocol}
    if of.encrypts:
        files = {"ssl_cafile": of.ca, "ssl_certfile": of.certificate, "ssl_keyfile": of.key}
        options |= {name: str(path) for name, path in files.items() if path is not None}
    if of.asks:
        options |= {"sasl_mechanism": of.mechanism, "sasl_plain_username": of.user, "sasl_plain_password": of.password}
    return options


def context_of(brokers: Brokers) -> ssl.SSLContext:
    """What TLS would be begun with; for a look whether files are what they should be.

    Raises:
        OSError: a file cannot be read, or holds something else.
    """
    context = ssl.create_default_context(cafile=brokers.ca)
    if brokers.certificate is not None and brokers.key is not None:
        context.load_cert_chain(brokers.certificate, brokers.key)
    return context


def for_spark(brokers: Brokers | str) -> dict[str, str]:
    """Options of Spark's source and sink of Kafka, which hand what begins with `kafka.` to its client in Java.

    Raises:
        OSError: a file cannot be read.
    """
    of = brokers if isinstance(brokers, Brokers) else Brokers(brokers)
    options = {"bootstrap.servers": of.servers, "security.protocol": of.protocol}
    if of.encrypts:
        if of.ca is not None:
            options |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": of.ca.read_text()}
        if of.certificate is not None and of.key is not None:
            options |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.certificate.chain": of.certificate.read_text(),
                "ssl.keystore.key": of.key.read_text(),
            }
    if of.asks:
        module = PLAIN_LOGIN if of.mechanism == "PLAIN" else SCRAM_LOGIN
        login = f"{module} required username={_quoted(of.user)} password={_quoted(of.password)};"
        options |= {"sasl.mechanism": of.mechanism, "sasl.jaas.config": login}
    return {f"kafka.{name}": value for name, value in options.items()}


def spark_source(brokers: Brokers | str, topics: Sequence[str]) -> dict[str, str]:
    """Options of Spark's source: these topics, and of transactions the committed records only.

    Raises:
        OSError: a file cannot be read.
    """
    return {**for_spark(brokers), "subscribe": ",".join(topics), "kafka.isolation.level": READ_COMMITTED}


def _quoted(word: str) -> str:
    """As a login module reads it."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
