"""Settings: variables of the environment become one tree, and what does not fit is named."""

from pathlib import Path

import pytest

from cohabit.config.errors import BadSettings
from cohabit.config.settings import Settings, read_settings


def test_without_variables_everything_has_a_default() -> None:
    assert read_settings({"PATH": "/bin", "LAKE": "x"}) == Settings()


def test_two_underscores_step_into_a_branch() -> None:
    given = {
        "COHABIT_LAKE": "/data/lake",
        "COHABIT_REGISTRY": "/data/models",
        "COHABIT_KAFKA__BOOTSTRAP": "kafka:9092",
        "COHABIT_KAFKA__SESSION_TIMEOUT_MS": "9000",
        "COHABIT_ADVISOR__MAX_FEATURE_AGE_S": "1e3",
    }

    found = read_settings(given)

    assert (found.lake, found.registry) == ("/data/lake", Path("/data/models"))
    assert (found.kafka.bootstrap, found.kafka.session_timeout_ms) == ("kafka:9092", 9000)
    assert found.advisor.max_feature_age_s == 1000.0
    assert found.kafka.group == Settings().kafka.group


def test_where_downloads_are_kept_is_no_setting() -> None:
    assert read_settings({"COHABIT_CACHE": "/var/cache"}) == Settings()


@pytest.mark.parametrize(
    ("name", "there_is"),
    [
        ("COHABIT_LAEK", "COHABIT_LAKE"),
        ("COHABIT_KAFKA__BOOTSTRAPS", "COHABIT_KAFKA__BOOTSTRAP"),
        ("COHABIT_KAFKA__", "COHABIT_KAFKA__GROUP"),
    ],
)
def test_an_unknown_name_is_an_error_that_names_it_and_those_there_are(name: str, there_is: str) -> None:
    with pytest.raises(BadSettings) as raised:
        read_settings({name: "x"})

    assert str(raised.value).startswith(f"unknown setting {name}")
    assert there_is in str(raised.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("COHABIT_ADVISOR__PORT", "eighty"),
        ("COHABIT_ADVISOR__PORT", "65536"),
        ("COHABIT_ADVISOR__MAX_FEATURE_AGE_S", "0"),
        ("COHABIT_KAFKA__SESSION_TIMEOUT_MS", "1"),
        ("COHABIT_KAFKA", "kafka:9092"),
        ("COHABIT_ADVISOR__HOST", "localhost"),
        ("COHABIT_ADVISOR__SCHEDULER_HOST", "10.0.0"),
        ("COHABIT_ADVISOR__MAX_FEATURE_AGE_S", "inf"),
        ("COHABIT_DRIFT__MAX_AGE_DAYS", "nan"),
        ("COHABIT_KAFKA__SESSION_TIMEOUT_MS", "99999999999999"),
        ("COHABIT_SIGNING__TRUSTED_KEYS", ""),
        ("COHABIT_SIGNING__TRUSTED_KEYS", " , "),
        ("COHABIT_SIGNING__KEY", ""),
        ("COHABIT_LAKE", ""),
        ("COHABIT_REGISTRY", " "),
    ],
)
def test_a_value_that_does_not_fit_is_an_error_that_names_variable_and_value(name: str, value: str) -> None:
    with pytest.raises(BadSettings) as raised:
        read_settings({name: value})

    assert str(raised.value).startswith(f"{name}={value!r}: ")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"PROTOCOL": "SASL_SSL"}, "set all"),
        ({"PROTOCOL": "SASL_SSL", "USER": "u"}, "set all"),
        ({"USER": "u", "PASSWORD_FILE": "p"}, "set all"),
        ({"PROTOCOL": "SSL", "CERTIFICATE": "c"}, "go together: set both"),
        ({"CA": "c"}, "require COHABIT_KAFKA__PROTOCOL=SSL or SASL_SSL"),
        ({"PROTOCOL": "TLS"}, "'SASL_SSL'"),
        ({"PASSWORD": "hunter2"}, "unknown setting"),
    ],
)
def test_how_kafka_is_reached_is_said_wholly(given: dict[str, str], says: str) -> None:
    with pytest.raises(BadSettings, match=says) as caught:
        read_settings({f"COHABIT_KAFKA__{name}": value for name, value in given.items()})

    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("told", ["", "\n", "one\ntwo\n", b"\xff"])
def test_a_file_that_holds_no_password_is_named(tmp_path: Path, told: str | bytes) -> None:
    path = tmp_path / "password"
    path.write_bytes(told if isinstance(told, bytes) else told.encode())
    given = {"PROTOCOL": "SASL_SSL", "USER": "u", "PASSWORD_FILE": str(path)}
    own = read_settings({f"COHABIT_KAFKA__{name}": value for name, value in given.items()})

    with pytest.raises(BadSettings, match="PASSWORD_FILE"):
        own.kafka.brokers()
    path.write_text(" a b \n")
    found = own.kafka.brokers("other:1")
    assert (found.servers, found.user, found.password) == ("other:1", "u", " a b ")


@pytest.mark.parametrize("order", [1, -1])
def test_a_name_that_is_both_a_value_and_a_branch_is_an_error(order: int) -> None:
    given = [("COHABIT_KAFKA", "kafka:9092"), ("COHABIT_KAFKA__GROUP", "g")][::order]

    with pytest.raises(BadSettings, match="COHABIT_KAFKA"):
        read_settings(dict(given))


def test_everything_wrong_is_told_at_once() -> None:
    with pytest.raises(BadSettings, match=r"unknown setting COHABIT_X.*COHABIT_ADVISOR__PORT='a'|COHABIT_ADVISOR.*_X"):
        read_settings({"COHABIT_X": "1", "COHABIT_ADVISOR__PORT": "a"})


OIDC = {
    "COHABIT_ADVISOR__AUTH": "token",
    "COHABIT_ADVISOR__OIDC_ISSUER": "https://id.example",
    "COHABIT_ADVISOR__OIDC_AUDIENCE": "cohabit",
    "COHABIT_ADVISOR__OIDC_ROLES": '{"platform-team": "sre", "money": "finance"}',
}


def test_roles_by_value_of_a_claim_are_json() -> None:
    found = read_settings(OIDC).advisor

    assert found.oidc_roles == {"platform-team": "sre", "money": "finance"}
    assert found.oidc_role_claim == "groups"


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("ROLES", "sre", "give JSON"),
        pytest.param("ROLES", "[" * 100_000, "give JSON", id="deep"),
        ("ROLES", "[]", "a role for each value of the claim"),
        ("ROLES", '{"a": 1}', "a role for each value of the claim"),
        ("ROLES", '{"a": "boss"}', "unknown role 'boss': choose one of scheduler, sre"),
        ("ROLES", "{}", "set all three"),
        ("AUDIENCE", "", "set all three"),
        ("ISSUER", "", "set all three"),
    ],
)
def test_half_an_issuer_is_an_error(name: str, value: str, said: str) -> None:
    with pytest.raises(BadSettings, match=said):
        read_settings({**OIDC, f"COHABIT_ADVISOR__OIDC_{name}": value})


def test_an_issuer_without_tokens_asked_for_is_an_error() -> None:
    with pytest.raises(BadSettings, match=r"^COHABIT_ADVISOR__OIDC_ISSUER .*COHABIT_ADVISOR__AUTH=token$"):
        read_settings({**OIDC, "COHABIT_ADVISOR__AUTH": "none"})


@pytest.mark.parametrize("given", [{"COHABIT_CLUSTER": "caf\udce9"}, {"COHABIT_CAF\udcc9": "x"}])
def test_bytes_that_are_no_text_are_an_error(given: dict[str, str]) -> None:
    with pytest.raises(BadSettings, match=r"^'COHABIT_C\S+ is not UTF-8"):
        read_settings(given)


def test_nothing_is_drawn_unless_asked_for_and_never_more_than_a_tenth() -> None:
    assert Settings().advisor.exploration_rate == 0.0
    assert read_settings({"COHABIT_ADVISOR__EXPLORATION_RATE": "0.1"}).advisor.exploration_rate == 0.1
    with pytest.raises(BadSettings, match="EXPLORATION_RATE"):
        read_settings({"COHABIT_ADVISOR__EXPLORATION_RATE": "0.11"})


def test_nothing_is_withheld_unless_asked_for_and_never_from_more_than_half() -> None:
    assert Settings().advisor.holdout_share == 0.0
    assert read_settings({"COHABIT_ADVISOR__HOLDOUT_SHARE": "0.5"}).advisor.holdout_share == 0.5
    with pytest.raises(BadSettings, match="HOLDOUT_SHARE"):
        read_settings({"COHABIT_ADVISOR__HOLDOUT_SHARE": "0.51"})
