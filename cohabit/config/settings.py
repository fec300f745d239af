"""Settings: one tree, read once at start-up from COHABIT_* variables, passed down as plain values.

COHABIT_LAKE=/data/lake, COHABIT_KAFKA__BOOTSTRAP=kafka:9092: two underscores step into a branch.
"""

import json
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from advisor.auth.api_tokens import TokenRole, checked_role
from advisor.errors import UnknownRole
from advisor.plans.rules.policy import HOUR_US, Freeze, Rules, Window
from advisor.remediation.action_costs import Prices
from cohabit.config.change_windows import freezes_of, windows_of
from cohabit.config.errors import BadSettings
from cohabit.config.webhook_url import checked_webhook
from ingest.kafka_io.connection import Brokers, Mechanism, Protocol

PREFIX = "COHABIT_"
MAX_WORKERS = 64
SECRETS = ("database", "webhook")
"""Settings whose values may contain credentials."""
OUTSIDE = ("COHABIT_CACHE", "COHABIT_BIN", "COHABIT_DAGS_SINCE", "COHABIT_DAGS_RETRY_S", "COHABIT_DAGS_ASK_S")
"""Variables with the prefix that are not settings: the download cache, and variables of the Airflow DAGs."""


class Branch(BaseModel):
    """A frozen group of settings; an unknown name is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)


def _roles_by_value(given: object) -> dict[str, TokenRole]:
    """JSON such as {"platform-team": "sre"}.

    Raises:
        ValueError: it is something else, or names an unknown role.
    """
    try:
        parsed = json.loads(given) if isinstance(given, str) else given
    except (ValueError, RecursionError) as error:
        raise ValueError('give JSON, such as {"platform-team": "sre"}') from error
    if not isinstance(parsed, dict) or not all(isinstance(role, str) for role in parsed.values()):
        raise ValueError('give a role for each value of the claim, such as {"platform-team": "sre"}')
    try:
        return {value: checked_role(role) for value, role in parsed.items()}
    except UnknownRole as error:
        raise ValueError(str(error)) from error


class KafkaSettings(Branch):
    """COHABIT_KAFKA__*: connection to Kafka and consumer of metrics."""

    bootstrap: str = "127.0.0.1:9092"
    """Kafka bootstrap servers, host:port, comma-separated."""
    protocol: Protocol = "PLAINTEXT"
    """Kafka security.protocol: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
    ca: Path | None = None
    """PEM file of the CA of the brokers' certificates; default: the system's trusted CAs."""
    certificate: Path | None = None
    """PEM file of the client certificate, for brokers that require one."""
    key: Path | None = None
    """PEM file of the client certificate's key, PKCS #8 without a password."""
    mechanism: Mechanism = "SCRAM-SHA-512"
    """Kafka sasl.mechanism."""
    user: str | None = None
    """SASL user name."""
    password_file: Path | None = None
    """File with the SASL password, in one line."""
    group: str = "cohabit-ingest"
    """Consumer group; `cohabit ingest` processes of one group share the partitions."""
    session_timeout_ms: int = Field(default=45_000, ge=500, le=1_800_000)
    """Kafka session.timeout.ms of a consumer; brokers allow at most 1,800,000 ms."""
    max_wait_ms: int = Field(default=1000, ge=10, le=20_000)
    """Maximum wait of a fetch of `cohabit ingest` at the broker for more records, in ms."""
    commit_every_s: float = Field(default=10.0, ge=0, le=600)
    """Time between commits of `cohabit ingest` to the lake, in seconds; longer makes fewer, larger files."""
    metrics_port: int | None = Field(default=None, ge=0, le=65535)
    """Port of the Prometheus metrics of `cohabit ingest` and `cohabit watch`; disabled if unset."""
    metrics_host: str = "127.0.0.1"
    """Address of the Prometheus metrics port."""
    topics: str = ""
    """Third-party topics to ingest in addition: NAME=FORMAT, comma-separated."""

    def brokers(self, named: str | None = None) -> Brokers:
        """Bootstrap servers and connection settings of Kafka.

        Args:
            named: servers that override the setting.

        Raises:
            BadSettings: the password cannot be read.
        """
        return Brokers(
            servers=named or self.bootstrap,
            protocol=self.protocol,
            ca=self.ca,
            certificate=self.certificate,
            key=self.key,
            mechanism=self.mechanism,
            user=self.user or "",
            password="" if self.password_file is None else _password(self.password_file),
        )

    @model_validator(mode="after")
    def _nothing_is_half_said(self) -> Self:
        tls, sasl = self.protocol in {"SSL", "SASL_SSL"}, self.protocol in {"SASL_PLAINTEXT", "SASL_SSL"}
        if (self.certificate is None) != (self.key is None):
            raise ValueError("COHABIT_KAFKA__CERTIFICATE and _KEY go together: set both")
        if not tls and (self.ca or self.certificate):
            raise ValueError("COHABIT_KAFKA__CA and _CERTIFICATE require COHABIT_KAFKA__PROTOCOL=SSL or SASL_SSL")
        if sasl != bool(self.user) or sasl != (self.password_file is not None):
            raise ValueError(
                "COHABIT_KAFKA__USER, _PASSWORD_FILE and _PROTOCOL=SASL_SSL, or SASL_PLAINTEXT, go together: set all"
            )
        return self


def _password(path: Path) -> str:
    try:
        secret = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise BadSettings(f"COHABIT_KAFKA__PASSWORD_FILE={path} cannot be read: {reason}") from error
    if not secret.strip() or len(secret.strip().splitlines()) > 1:
        raise BadSettings(f"COHABIT_KAFKA__PASSWORD_FILE={path} must contain a password, in one line")
    return secret.rstrip("\r\n")


class SparkSettings(Branch):
    """COHABIT_SPARK__*: Spark for features. Without a master, small lakes are computed in one process."""

    master: str | None = None
    """Spark master URL, such as spark://host:7077."""
    driver_memory: str = "2g"
    """Spark driver memory, in Spark's notation."""


def _urls(value: object) -> object:
    """URLs from the value of a variable."""
    urls = tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value
    for url in urls if isinstance(urls, tuple) else ():
        parts = urlsplit(str(url))
        if parts.scheme not in {"http", "https"} or not parts.hostname or not parts.port or parts.path.strip("/"):
            raise ValueError(f"{url} is not http(s)://HOST:PORT")
    return urls


def _address(value: object) -> IPv4Address | IPv6Address:
    """An address of this machine, from the value of a variable."""
    try:
        return ip_address(str(value))
    except ValueError as error:
        raise ValueError("give an IP address, such as 127.0.0.1 or ::1; host names are not resolved") from error


Address = Annotated[IPv4Address | IPv6Address, BeforeValidator(_address)]


class AdvisorSettings(Branch):
    """COHABIT_ADVISOR__*: management and extender API, on loopback unless tokens and certificates are required."""

    host: Address = IPv4Address("127.0.0.1")
    """Address of the management API; any address other than loopback requires tokens."""
    auth: Literal["none", "token"] = "none"
    """Access to the management API: open to all who reach it, or by tokens with a role."""
    oidc_issuer: str | None = None
    """OIDC issuer URL, compared exactly with the `iss` claim. Requires https and AUTH=token."""
    oidc_audience: str | None = None
    """Required value in claim `aud`."""
    oidc_role_claim: str = Field(default="groups", min_length=1)
    """Claim with the roles; dots separate nested claims."""
    oidc_roles: Annotated[dict[str, TokenRole], BeforeValidator(_roles_by_value)] = {}
    """Roles by value of the role claim, as a JSON object."""
    client_rate: float = Field(default=50.0, gt=0)
    """Maximum requests per second of one token or one user of the issuer."""
    client_burst: int = Field(default=100, ge=1)
    """Maximum burst of requests of one token or user."""
    port: int = Field(default=8080, ge=0, le=65535)
    """Port of the management API; 0 chooses a free port."""
    scheduler_port: int = Field(default=8081, ge=0, le=65535)
    """Port of the extender API; 0 chooses a free port."""
    scheduler_host: Address = IPv4Address("127.0.0.1")
    """Address of the extender API; any address other than loopback requires certificates."""
    scheduler_certificate: Path | None = None
    """PEM file of the extender API's certificate, signed by the schedulers' caFile."""
    scheduler_key: Path | None = None
    """PEM file of the certificate's key."""
    scheduler_client_ca: Path | None = None
    """PEM file of the CA of scheduler certificates; other clients are rejected."""
    admission: Literal["off", "annotate", "advise"] = "off"
    """Admission mode: `advise` adds preferred node affinity to created pods, `annotate` only says which, `off` has no
    webhook."""
    admission_port: int = Field(default=8443, ge=0, le=65535)
    """Port of the admission webhook; 0 chooses a free port."""
    admission_host: Address = IPv4Address("127.0.0.1")
    """Address of the admission webhook; any address other than loopback requires a certificate."""
    admission_certificate: Path | None = None
    """PEM file of the admission webhook's certificate, read again when it changes."""
    admission_key: Path | None = None
    """PEM file of that certificate's key."""
    filter: Literal["off", "zero"] = "off"
    """Filter mode: `zero` filters out nodes where a latency-sensitive pod has score 0, `off` none."""
    workers: int = Field(default=1, ge=1, le=MAX_WORKERS)
    """Number of processes of the extender API."""
    peers: Annotated[tuple[str, ...], BeforeValidator(_urls)] = ()
    """Peer servers of the same cluster, comma-separated, such as http://10.0.0.6:8081; they exchange assumed pods."""
    score_table_file: Path | None = None
    """File that each new score table is copied to, for the kube-scheduler plugin; none by default."""
    max_feature_age_s: float = Field(default=120.0, gt=0)
    """Maximum feature age, in seconds. Beyond it all scores are 0 and /readyz reports the reason."""
    feature_log_share: float = Field(default=0.01, ge=0, le=1)
    """Sampling rate of the feature log, per request, for `cohabit model check-skew`."""

    exploration_rate: float = Field(default=0.0, ge=0, le=0.1)
    """Exploration rate: share of decisions in which one of several equal nodes is drawn."""
    decision_log_share: float = Field(default=0.01, ge=0, le=1)
    """Sampling rate of the decision log for other decisions; it lies next to the snapshots in advised/."""
    holdout_share: float = Field(default=0.0, ge=0, le=0.5)
    """Share of pods in the holdout of `cohabit model impact`, which get no advice; as many others are logged."""

    @model_validator(mode="after")
    def _an_issuer_is_whole(self) -> Self:
        given = self.oidc_issuer, self.oidc_audience, self.oidc_roles
        if any(given) and not all(given):
            raise ValueError("COHABIT_ADVISOR__OIDC_ISSUER, _AUDIENCE and _ROLES go together: set all three")
        if any(given) and self.auth == "none":
            raise ValueError("COHABIT_ADVISOR__OIDC_ISSUER requires authentication: set COHABIT_ADVISOR__AUTH=token")
        return self

    @model_validator(mode="after")
    def _the_webhook_is_secured(self) -> Self:
        if (self.admission_certificate is None) != (self.admission_key is None):
            raise ValueError("COHABIT_ADVISOR__ADMISSION_CERTIFICATE and _KEY go together: set both")
        if self.admission_certificate is None and not self.admission_host.is_loopback:
            raise ValueError(
                f"COHABIT_ADVISOR__ADMISSION_HOST={self.admission_host} is not loopback and requires a certificate: "
                "set COHABIT_ADVISOR__ADMISSION_CERTIFICATE and _KEY; `cohabit admin certificate` makes them"
            )
        return self

    @model_validator(mode="after")
    def _schedulers_are_known(self) -> Self:
        files = self.scheduler_certificate, self.scheduler_key, self.scheduler_client_ca
        if any(files) and not all(files):
            raise ValueError("COHABIT_ADVISOR__SCHEDULER_CERTIFICATE, _KEY and _CLIENT_CA go together: set all three")
        if not any(files) and not self.scheduler_host.is_loopback:
            raise ValueError(
                f"COHABIT_ADVISOR__SCHEDULER_HOST={self.scheduler_host} is not loopback and requires certificates: set "
                "COHABIT_ADVISOR__SCHEDULER_CERTIFICATE, _KEY and _CLIENT_CA; docs/scheduler.md shows how"
            )
        for url in self.peers:
            if url.startswith("https:") != any(files):
                raise ValueError(
                    f"COHABIT_ADVISOR__PEERS={url}: use https if the extender API has certificates, else http"
                )
        return self


class PlanSettings(Branch):
    """COHABIT_PLANS__*: limits of plans and change windows; see docs/rescheduling.md."""

    interval_s: float = Field(default=0.0, ge=0, le=86_400)
    """Interval between plans that `cohabit refresh` drafts, in seconds; 0 disables them."""
    webhook: Annotated[str | None, BeforeValidator(checked_webhook)] = None
    """Webhook URL for new plans, by POST: https, or http on loopback."""
    max_daily_share: float = Field(default=0.005, gt=0, le=1)
    """Maximum share of a cluster's containers that plans change within 24 hours; at least one container."""
    max_snapshot_age_hours: float = Field(default=2.0, gt=0, le=1e6)
    """Maximum snapshot age for drafting and approving plans, in hours."""
    cooldown_hours: float = Field(default=24.0, ge=0, le=8_760)
    """Cooldown of a container after a change, in hours."""
    holdout_share: float = Field(default=0.15, ge=0, le=0.5)
    """Share of steps in the randomised holdout, which are not exported, as control group of the others."""
    valid_hours: float = Field(default=4.0, gt=0, le=168)
    """Time in which a plan can be approved and exported, in hours."""
    max_steps: int = Field(default=20, ge=1, le=200)
    """Maximum number of steps of a plan."""
    max_search_moves: int = Field(default=131_072, ge=0, le=10_000_000)
    """Number of moves that the whole-cluster search evaluates; 0 disables the search."""
    payback_hours: float = Field(default=2.0, gt=0, le=168)
    """Payback time of a step, in hours: it must save more than it costs in that time."""
    restart_cost: float = Field(default=0.5, ge=0, le=1000)
    """Cost of moving a latency-sensitive container, in hours at half its speed, each of which costs 2."""
    restart_cost_best_effort: float = Field(default=0.4, ge=0, le=1000)
    """Cost of moving a best-effort container, in the same unit."""
    change_freezes: Annotated[tuple[Freeze, ...], BeforeValidator(freezes_of)] = ()
    """Change freezes: START/END, comma-separated, as in 2026-12-20T00:00Z/2027-01-03T00:00Z."""
    change_windows: Annotated[tuple[Window, ...], BeforeValidator(windows_of)] = ()
    """Change windows in UTC: DAYS HH:MM-HH:MM, comma-separated, as in mon-thu 09:00-16:00,fri 09:00-12:00."""

    @property
    def max_snapshot_age_us(self) -> int:
        """Microseconds."""
        return round(self.max_snapshot_age_hours * HOUR_US)

    def rules(self) -> Rules:
        """The same as input of the kernels."""
        return Rules(
            max_daily_share=self.max_daily_share,
            cooldown_us=round(self.cooldown_hours * HOUR_US),
            holdout_share=self.holdout_share,
            valid_us=round(self.valid_hours * HOUR_US),
            max_steps=self.max_steps,
            max_search_moves=self.max_search_moves,
            prices=Prices(self.payback_hours, self.restart_cost, self.restart_cost_best_effort),
            freezes=self.change_freezes,
            windows=self.change_windows,
        )


class DriftSettings(Branch):
    """COHABIT_DRIFT__*: limits of `cohabit model drift`; see docs/drift.md."""

    window_hours: float = Field(default=6.0, gt=0, le=8_760)
    """Time span of the newest labels that are checked, in hours."""
    max_age_days: float = Field(default=14.0, gt=0, le=3_650)
    """Maximum age of the model's newest training row, in days."""


def _paths(value: object) -> object:
    """Paths from the value of a variable.

    Raises:
        ValueError: it is empty, which must not mean that every key is trusted.
    """
    if not isinstance(value, str):
        return value
    paths = tuple(part.strip() for part in value.split(",") if part.strip())
    if not paths:
        raise ValueError("names no file: name one, or unset the variable")
    return paths


def _named(value: object) -> object:
    """A path from the value of a variable.

    Raises:
        ValueError: it is empty, which would be the current working directory.
    """
    if not str(value).strip():
        raise ValueError("names no path: name one, or unset the variable")
    return value


Named = Annotated[Path, BeforeValidator(_named)]


class SigningSettings(Branch):
    """COHABIT_SIGNING__*: signatures of bundles; `cohabit model keys` creates a key pair."""

    key: Named | None = None
    """PEM file of the private key that signs bundles trained or recalibrated here."""
    trusted_keys: Annotated[tuple[Path, ...], BeforeValidator(_paths)] = ()
    """PEM files of trusted public keys, comma-separated. Other bundles are not promoted or served; unset trusts all."""


class BillingSettings(Branch):
    """COHABIT_BILLING__*: where charge records are kept; see docs/billing.md."""

    ledger_dir: Named = Path("cohabit-data/lines")
    """Folder of charge files and their inputs; without it bills cannot be explained."""


class BudgetSettings(Branch):
    """COHABIT_BUDGETS__*: budget alerts; see docs/statements.md."""

    webhook: Annotated[str | None, BeforeValidator(checked_webhook)] = None
    """Webhook URL of `cohabit bill budgets --alert`, by POST: https, or http on loopback."""


class Settings(Branch):
    """COHABIT_*: all settings."""

    environment: Literal["development", "production"] = "development"
    """Type of deployment: `production` rejects unsafe defaults."""
    cluster: str = "default"
    """Name of the cluster; rows of other clusters in the lake are skipped."""
    lake: Annotated[str, BeforeValidator(_named)] = "cohabit-data/lake"
    """Lake of ingested metrics and derived tables: a folder, or a bucket (s3://, gs://, az://)."""
    registry: Named = Path("cohabit-data/registry")
    """Folder of model bundles; database and saved plans lie next to it unless set."""
    snapshots: Named = Path("cohabit-data/snapshots")
    """Folder of snapshots, from `cohabit refresh` to `cohabit serve`."""
    database: str | None = None
    """Database (tokens, audit, plans, bills): SQLite file or postgresql://...; store.sqlite next to the registry."""
    mapping: Named | None = None
    """TOML file that maps third-party metrics to columns, in addition to the built-in mapping."""
    kafka: KafkaSettings = KafkaSettings()
    spark: SparkSettings = SparkSettings()
    advisor: AdvisorSettings = AdvisorSettings()
    billing: BillingSettings = BillingSettings()
    plans: PlanSettings = PlanSettings()
    budgets: BudgetSettings = BudgetSettings()
    drift: DriftSettings = DriftSettings()
    signing: SigningSettings = SigningSettings()

    @model_validator(mode="after")
    def _production_is_safe(self) -> Self:
        if self.environment == "production" and (unsafe := tuple(self._unsafe())):
            raise ValueError(f"COHABIT_ENVIRONMENT=production: {'; '.join(unsafe)}")
        return self

    def _unsafe(self) -> Iterator[str]:
        if self.advisor.auth == "none":
            yield "the management API requires no token: set COHABIT_ADVISOR__AUTH=token"
        if self.cluster == Settings.model_fields["cluster"].default:
            yield "the cluster has the default name: set COHABIT_CLUSTER"
        folders = {
            "LAKE": self.lake,
            "REGISTRY": self.registry,
            "SNAPSHOTS": self.snapshots,
            "BILLING__LEDGER_DIR": self.billing.ledger_dir,
        }
        for name, folder in folders.items():
            if not str(folder).startswith("/") and "://" not in str(folder):
                yield f"{folder} is relative to the working directory: set COHABIT_{name} to an absolute path"


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Settings from environment variables.

    Raises:
        BadSettings: a variable has an unknown name or a value that does not fit.
    """
    tree: dict[str, object] = {}
    for name, value in environment.items():
        if name.startswith(PREFIX) and name not in OUTSIDE:
            _refuse_bytes(name, value)
            _put(tree, name.removeprefix(PREFIX).lower().split("__"), value)
    try:
        return Settings.model_validate(tree)
    except ValidationError as error:
        raise BadSettings("; ".join(map(_complaint, error.errors()))) from error


def _refuse_bytes(name: str, value: str) -> None:
    try:
        f"{name}{value}".encode()
    except UnicodeEncodeError as error:
        raise BadSettings(f"{name!a} is not UTF-8: set it to text") from error


def _complaint(error: ErrorDetails) -> str:
    name = f"{PREFIX}{'__'.join(map(str, error['loc'])).upper()}"
    said = error["msg"].removeprefix("Value error, ")
    if error["type"] == "value_error" and isinstance(error["input"], dict):
        return said  # of several settings together, which it names
    if error["type"] != "extra_forbidden":
        hidden = "@" in str(error["input"]) or any(step in SECRETS for step in error["loc"])
        return f"{name}={'(hidden)' if hidden else repr(error['input'])}: {said}"
    branch: type[BaseModel] = Settings
    for step in error["loc"][:-1]:
        branch = type(getattr(Settings(), str(step)))
    same_branch = name.rpartition("__")[0] + "__" if "__" in name else PREFIX
    return f"unknown setting {name}; known: {', '.join(same_branch + known.upper() for known in branch.model_fields)}"


def _put(tree: dict[str, object], path: list[str], value: str) -> None:
    for step in path[:-1]:
        branch = tree.setdefault(step, {})
        if not isinstance(branch, dict):
            raise BadSettings(f"{PREFIX}{step.upper()} is set both as a value and as a branch")
        tree = branch
    tree[path[-1]] = value
