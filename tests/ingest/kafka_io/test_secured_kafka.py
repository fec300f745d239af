"""Kafka over TLS: certificates, passwords, and what is told where one of them is wrong; against a real broker."""

import subprocess
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from kafka import KafkaAdminClient
from kafka.admin import UserScramCredentialUpsertion
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from cohabit.cli.main import app
from features.schema.tables import TABLES
from ingest.devkafka.broker import HOST, Broker, free_ports, running_broker
from ingest.kafka_io.client import connect
from ingest.kafka_io.connection import Brokers, Protocol, for_python, for_spark
from ingest.lake.tables import Lake
from tests.advisor.commands import environment, run

pytestmark = pytest.mark.slow

USER, PASSWORD = "cohabit", 'p"a\\ss word'
PASSWORDS, CERTIFICATES = "PASSWORDS", "CERTIFICATES"
"""Names of listeners."""
Case = tuple[str, Mapping[str, str], str]
"""A listener, changed settings of a client, and what its error says."""
PLAIN = f"org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


@dataclass(frozen=True)
class Secured:
    """A broker that encrypts: port by listener, and files for clients."""

    broker: Broker
    ports: Mapping[str, int]
    folder: Path

    def settings(self, listener: str, **changes: str) -> dict[str, str]:
        """Variables of a client, by their names after COHABIT_."""
        given = {"bootstrap": f"{HOST}:{self.ports[listener]}", "ca": str(self.folder / "ca.pem")}
        if listener == PASSWORDS:
            given |= {"protocol": "SASL_SSL", "user": USER, "password_file": str(self.folder / "password")}
        else:
            files = {name: str(self.folder / f"client.{name}") for name in ("certificate", "key")}
            given |= {"protocol": "SSL", **files}
        return {f"kafka__{name}": value for name, value in (given | changes).items() if value}


def in_a_line(text: str) -> str:
    """As a properties file has it."""
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def key_of(certificate: trustme.LeafCert) -> str:
    """PKCS #8, which is all that Java reads."""
    key = load_pem_private_key(certificate.private_key_pem.bytes(), None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def chain_of(certificate: trustme.LeafCert) -> str:
    return "".join(part.bytes().decode() for part in certificate.cert_chain_pems)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder, authority = tmp_path_factory.mktemp("secured"), trustme.CA()
    server, client = authority.issue_cert(HOST), authority.issue_cert("ingest.example")
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    trustme.CA().cert_pem.write_to_path(str(folder / "stranger.pem"))
    (folder / "client.certificate").write_text(chain_of(client))
    (folder / "client.key").write_text(key_of(client))
    (folder / "password").write_text(PASSWORD + "\n")
    (folder / "wrong").write_text("hunter2")
    ports = dict(zip((PASSWORDS, CERTIFICATES), free_ports(4)[2:], strict=True))

    def properties(broker: Broker) -> dict[str, str]:
        named = {"PLAINTEXT": broker.client_port, **ports, "CONTROLLER": broker.controller_port}
        listeners = ",".join(f"{name}://{HOST}:{port}" for name, port in named.items())
        kinds = f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,{PASSWORDS}:SASL_SSL,{CERTIFICATES}:SSL"
        passwords = f"listener.name.{PASSWORDS.lower()}"
        shown = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
        return {
            "listeners": listeners,
            "advertised.listeners": listeners,
            "listener.security.protocol.map": kinds,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": in_a_line(key_of(server)),
            "ssl.keystore.certificate.chain": in_a_line(chain_of(server)),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": in_a_line(authority.cert_pem.bytes().decode()),
            f"listener.name.{CERTIFICATES.lower()}.ssl.client.auth": "required",
            f"{passwords}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            f"{passwords}.plain.sasl.jaas.config": in_a_line(f'{PLAIN}"{shown}";'),
            f"{passwords}.scram-sha-256.sasl.jaas.config": SCRAM,
            f"{passwords}.scram-sha-512.sasl.jaas.config": SCRAM,
        }

    with running_broker(folder / "broker", properties) as broker:
        with closing(connect(KafkaAdminClient, broker.bootstrap)) as admin:
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
                told = admin.alter_user_scram_credentials([UserScramCredentialUpsertion(USER, mechanism, PASSWORD)])
                assert told == {USER: None}
        yield Secured(broker, ports, folder)


def cohabit(folder: Path, words: str, settings: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    done = run(folder, f"cohabit {words}", **settings)
    assert PASSWORD not in done.stdout + done.stderr
    assert "hunter2" not in done.stdout + done.stderr
    return done


def test_records_go_there_and_land_by_password(secured: Secured, tmp_path: Path) -> None:
    settings = secured.settings(PASSWORDS)
    assert cohabit(tmp_path, "dev simulate s --nodes 3 --apps 3 --hours 1", {}).returncode == 0

    sent = cohabit(tmp_path, "dev replay s --speed 0", settings)
    landed = cohabit(tmp_path, "ingest --until-end --lake lake", settings)

    assert (sent.returncode, landed.returncode) == (0, 0), sent.stderr + landed.stderr
    lake = Lake.open(tmp_path / "lake", TABLES)
    assert lake.read("usage").num_rows > 100
    assert lake.read("nodes").num_rows > 0


def command(secured: Secured, listener: str, *words: str, **changes: str) -> Result:
    """The same in this process."""
    done = CliRunner().invoke(app, words, env=environment(secured.folder, **secured.settings(listener, **changes)))
    assert PASSWORD not in done.output
    return done


BELIEVED: tuple[Case, ...] = (
    (PASSWORDS, {}, ""),
    (PASSWORDS, {"mechanism": "SCRAM-SHA-256"}, ""),
    (PASSWORDS, {"mechanism": "PLAIN"}, ""),
    (CERTIFICATES, {}, ""),
)
REFUSED: tuple[Case, ...] = (
    (PASSWORDS, {"password_file": "wrong"}, "uthentication"),
    (PASSWORDS, {"ca": "stranger.pem"}, "certificate verify failed"),
    (PASSWORDS, {"ca": "password"}, "certificates cannot be used"),
    (CERTIFICATES, {"certificate": "", "key": ""}, "no Kafka broker answers"),
)


def test_each_way_to_say_who_one_is_is_believed(secured: Secured) -> None:
    for listener, changes, _ in BELIEVED:
        done = command(secured, listener, "dev", "topics", **changes)
        assert done.exit_code == 0, done.stderr
        assert f"topics on {HOST}:{secured.ports[listener]}" in done.stdout


def test_what_is_wrong_is_said_in_a_line(secured: Secured, tmp_path: Path) -> None:
    """All run at once, since most of each is waiting."""

    def one(case: Case) -> subprocess.CompletedProcess[str]:
        listener, changes, _ = case
        files = {name: str(secured.folder / text) for name, text in changes.items() if text}
        return cohabit(tmp_path, "dev topics", secured.settings(listener, **{**changes, **files}))

    with ThreadPoolExecutor(len(REFUSED)) as pool:
        answers = list(pool.map(one, REFUSED))
    for (_, _, says), done in zip(REFUSED, answers, strict=True):
        error = done.stderr.splitlines()[-1]
        assert done.returncode == 1
        assert error.startswith("error: no Kafka broker answers at")
        assert says in error, error
        assert "Traceback" not in done.stderr


def test_what_goes_with_it_is_looked_at_by_a_check(secured: Secured) -> None:
    good = command(secured, PASSWORDS, "admin", "config", "check")
    bad = command(secured, PASSWORDS, "admin", "config", "check", ca=str(secured.folder / "password"))
    shown = command(secured, PASSWORDS, "admin", "config", "show")

    assert "SASL_SSL; what goes with it can be read" in " ".join(good.stdout.split())
    assert "COHABIT_KAFKA__PROTOCOL" in bad.stdout
    assert bad.exit_code == 1
    assert str(secured.folder / "password") in shown.stdout


@pytest.mark.parametrize("listener", [PASSWORDS, CERTIFICATES])
def test_spark_reads_and_writes_the_same_way(secured: Secured, spark: SparkSession, listener: str) -> None:
    kind: Protocol = "SASL_SSL" if listener == PASSWORDS else "SSL"
    ca, at = secured.folder / "ca.pem", f"{HOST}:{secured.ports[listener]}"
    brokers = Brokers(at, protocol=kind, ca=ca, user=USER, password=PASSWORD)
    if listener == CERTIFICATES:
        own = secured.folder / "client.certificate", secured.folder / "client.key"
        brokers = replace(brokers, certificate=own[0], key=own[1])
    topic = {**for_spark(brokers), "topic": f"spark-{listener.lower()}"}
    with closing(connect(KafkaAdminClient, secured.broker.bootstrap)) as admin:
        admin.create_topics({topic["topic"]: {"num_partitions": 1}})

    spark.createDataFrame([("a",), ("b",)], "value string").write.format("kafka").options(**topic).save()
    read = {**for_spark(brokers), "subscribe": topic["topic"], "startingOffsets": "earliest"}
    found = spark.read.format("kafka").options(**read).load().select("value").collect()

    assert sorted(bytes(row.value) for row in found) == [b"a", b"b"]


def test_a_password_is_in_no_text_of_it() -> None:
    brokers = Brokers("h:1", protocol="SASL_SSL", user=USER, password=PASSWORD)

    assert PASSWORD not in f"{brokers!r} {brokers}"
    assert for_python(brokers)["sasl_plain_password"] == PASSWORD
    assert for_python("h:1,i:2") == {"bootstrap_servers": ["h:1", "i:2"], "security_protocol": "PLAINTEXT"}
    assert for_spark("h:1") == {"kafka.bootstrap.servers": "h:1", "kafka.security.protocol": "PLAINTEXT"}
