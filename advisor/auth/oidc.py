"""OIDC: what a token that an issuer signed says, once its signature holds. Pure; advisor/auth/jwks.py has the keys.

PyJWT checks the signature, the issuer and the audience. The times are checked here, against the clock that all else
goes by. Of a token's head only `alg`, `kid` and `typ` are read: headers with keys or their addresses (`jku`, `jwk`,
`x5u`, `x5c`) are ignored, and an algorithm counts with a key that was made for it, or not at all.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

import jwt
from jwt.types import Options

from advisor.auth.api_tokens import Signed, TokenRole
from advisor.auth.principal import Caller

LEEWAY_S = 30
"""How far the clocks of issuer and advisor may be apart."""
MAX_KEYS = 64
"""That are taken from one issuer."""
MAX_MODULUS_CHARS = 1400
"""Of an RSA key's modulus as written: 8,192 bits. Longer ones would take long to check with."""
MAX_KID_CHARS = 256
CURVES = {("EC", "P-256"): "ES256", ("OKP", "Ed25519"): "EdDSA"}
RSA_ALGORITHMS = ("RS256", "PS256")
PUBLIC = ("kty", "crv", "n", "e", "x", "y")
KINDS = frozenset({"jwt", "at+jwt", "application/at+jwt"})
"""Of tokens (`typ`) that may open something: not logout tokens, nor proofs of possession."""
VISIBLE = frozenset(map(chr, range(0x21, 0x7F)))
MAX_SUBJECT_CHARS = 128
OPTIONS: Options = {
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
    "enforce_minimum_key_length": True,
    "require": ["iss", "aud", "sub"],
}
WHY: dict[type[jwt.PyJWTError], str] = {
    jwt.InvalidSignatureError: "forged token",
    jwt.InvalidIssuerError: "another issuer's token",
    jwt.InvalidAudienceError: "token for another audience",
    jwt.MissingRequiredClaimError: "incomplete token",
}


@dataclass(frozen=True, slots=True)
class Rules:
    """The trusted issuer, and the roles of its tokens.

    Args:
        issuer: claim `iss`, to the letter.
        audience: one of claim `aud`.
        role_claim: the claim with the principal's role; `realm_access.roles` steps into a claim.
        roles: by value of that claim.
    """

    issuer: str
    audience: str
    role_claim: str
    roles: Mapping[str, TokenRole]


@dataclass(frozen=True, slots=True)
class Key:
    """A key of an issuer, for one algorithm.

    Args:
        kid: its name; None where it has none.
        algorithm: the only one that it counts with.
        public: the key itself.
    """

    kid: str | None
    algorithm: str
    public: jwt.PyJWK


@dataclass(frozen=True, slots=True)
class Judged:
    """What came of reading a token.

    Args:
        why: it opens nothing; empty where it does.
        caller: who shows it; also of an expired one, None where the issuer did not say that to us.
        heard: audience or role values of an insufficient token, for the operator.
    """

    why: str
    caller: Caller | None = None
    heard: str = ""


def read_keys(document: Mapping[str, object]) -> tuple[Key, ...]:
    """The keys of a JSON Web Key Set that can check a signature; empty where none can.

    Others are left out: symmetric ones, those for encryption, short or very long ones, other curves, and any whose
    private part was published.
    """
    listed = document.get("keys")
    found = [key for each in (listed if isinstance(listed, list) else [])[:MAX_KEYS] for key in _keys(each)]
    return tuple(found)


def _keys(jwk: object) -> Sequence[Key]:
    if not isinstance(jwk, dict) or "d" in jwk or len(str(jwk.get("n", ""))) > MAX_MODULUS_CHARS:
        return ()
    if jwk.get("use", "sig") != "sig" or "verify" not in str(jwk.get("key_ops", "verify")):
        return ()
    kid, public = jwk.get("kid"), {name: jwk[name] for name in PUBLIC if isinstance(jwk.get(name), str)}
    curve = CURVES.get((public.get("kty", ""), public.get("crv", "")))
    fitting = RSA_ALGORITHMS if public.get("kty") == "RSA" else (curve,) if curve else ()
    if not (kid is None or isinstance(kid, str)):
        return ()
    try:
        return [Key(kid, alg, jwt.PyJWK(public, alg)) for alg in fitting if jwk.get("alg", alg) == alg]
    except jwt.PyJWTError:
        return ()


def fitting_key(token: Signed, keys: Sequence[Key]) -> Key | None:
    """The key that a token was signed with, if it says the truth; None where no key, or more than one, fits.

    A token that names no key fits when the issuer has but one for its algorithm.
    """
    try:
        head = jwt.get_unverified_header(token.text)
    except jwt.PyJWTError:
        return None
    kid, algorithm = head.get("kid"), head.get("alg")
    fitting = [key for key in keys if key.algorithm == algorithm and (kid is None or key.kid == kid)]
    return fitting[0] if len(fitting) == 1 else None


def names_a_key(token: Signed) -> bool:
    """Whether a newer set of keys could hold the one that the token names: its head can be read at all."""
    try:
        head = jwt.get_unverified_header(token.text)
    except jwt.PyJWTError:
        return False
    kid, algorithm = head.get("kid"), head.get("alg")
    known = isinstance(algorithm, str) and algorithm in {*RSA_ALGORITHMS, *CURVES.values()}
    return known and isinstance(kid, str) and 0 < len(kid) <= MAX_KID_CHARS


def judge(token: Signed, keys: Sequence[Key], rules: Rules, now_us: int) -> Judged:
    """Who shows the token and what they may do, or why it opens nothing.

    Args:
        token: as it was shown.
        keys: of the issuer.
        rules: the trusted issuer.
        now_us: microseconds since 1970.
    """
    key = fitting_key(token, keys)
    if key is None:
        return Judged("token of an unknown key")
    try:
        whole = jwt.decode_complete(
            token.text, key.public, [key.algorithm], OPTIONS, audience=rules.audience, issuer=rules.issuer
        )
    except jwt.InvalidAudienceError:
        return Judged(WHY[jwt.InvalidAudienceError], heard=_audience_of(token))
    except jwt.PyJWTError as error:
        return Judged(WHY.get(type(error), "unreadable token"))
    return _claimed(whole["header"], whole["payload"], rules, now_us / 10**6)


def _claimed(head: Mapping[str, object], claims: Mapping[str, object], rules: Rules, now_s: float) -> Judged:
    """What the claims of a token say that the issuer made for us."""
    caller = Caller(_name(str(claims["sub"])), frozenset(_roles(claims, rules)))
    if str(head.get("typ", "JWT")).lower() not in KINDS:
        return Judged("token of another kind", caller)
    until_s, from_s = _moment(claims.get("exp")), _moment(claims.get("nbf", 0))
    if until_s is None or from_s is None:
        return Judged("token without end", caller)
    if now_s >= until_s + LEEWAY_S:
        return Judged("expired token", caller)
    if now_s < from_s - LEEWAY_S:
        return Judged("token not good yet", caller)
    return Judged("", caller, "" if caller.roles else repr(_said(claims, rules.role_claim))[:MAX_SUBJECT_CHARS])


def _moment(claim: object) -> float | None:
    """A claim as seconds since 1970; None where it is no time."""
    is_number = isinstance(claim, int | float) and not isinstance(claim, bool)
    return float(claim) if is_number and abs(claim) < 2**53 and math.isfinite(claim) else None  # type: ignore[arg-type]


def _name(subject: str) -> str:
    """The subject as the audit spells it: itself where it is short and plain, else a hash that takes its place."""
    if 0 < len(subject) <= MAX_SUBJECT_CHARS and VISIBLE.issuperset(subject):
        return f"oidc:{subject}"
    return f"oidc-sha256:{sha256(subject.encode(errors='surrogatepass')).hexdigest()}"


def _roles(claims: Mapping[str, object], rules: Rules) -> list[TokenRole]:
    said = _said(claims, rules.role_claim)
    values = said if isinstance(said, list) else [said]
    return [rules.roles[value] for value in values if isinstance(value, str) and value in rules.roles]


def _said(claims: Mapping[str, object], path: str) -> object:
    """A claim by its name, which may have dots of its own, or else by the steps to it."""
    if path in claims:
        return claims[path]
    found: object = claims
    for step in path.split("."):
        found = found.get(step) if isinstance(found, Mapping) else None
    return found


def _audience_of(token: Signed) -> str:
    """For whom a token is whose signature holds, for the log."""
    return repr(jwt.decode(token.text, options={"verify_signature": False}).get("aud"))[:MAX_SUBJECT_CHARS]
