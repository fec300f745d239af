"""Configuration: every setting with what it is, where that comes from, and what it means."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import BaseModel

from cohabit.config.settings import PREFIX, SECRETS, Settings

SECRET = "***"  # noqa: S105 - stands in its place


@dataclass(frozen=True, slots=True)
class Setting:
    """One variable.

    Args:
        name: of the variable.
        value: in force, as one would write it; secrets are left out. Empty where there is none.
        default: without the variable; empty where there is none.
        given: whether the environment names it.
        meaning: what it says.
    """

    name: str
    value: str
    default: str
    given: bool
    meaning: str


@dataclass(frozen=True, slots=True)
class Section:
    """Settings that go together, and what they are about."""

    meaning: str
    settings: tuple[Setting, ...]


def sections(own: Settings, environment: Mapping[str, str]) -> tuple[Section, ...]:
    """Every setting there is, branch by branch.

    Args:
        own: what is in force.
        environment: what it was read from.
    """
    return tuple(
        Section(_about(of), tuple(_settings(of, default, path, environment))) for path, of, default in _all(own)
    )


def as_markdown(found: Sequence[Section]) -> str:
    """The reference of settings: defaults and meanings."""
    parts = [
        "# Settings\n\nEvery setting, from its model; `cohabit admin config show > FILE` lists those in force, "
        "`cohabit admin config reference` writes this page. Options of commands go before them.\n"
    ]
    for section in found:
        head, _, what = section.meaning.partition(": ")
        parts.append(f"## {head.strip('*').rstrip('_') or PREFIX}\n\n{what[:1].upper()}{what[1:]}\n")
        rows = [
            f"| `{one.name}` | {f'`{one.default}`' if one.default else '–'} | {one.meaning} |"
            for one in section.settings
        ]
        parts.append(
            "| variable | default | meaning |\n| --- | --- | --- |\n" + "\n".join(rows).replace("{", "\\{") + "\n"
        )
    return "\n".join(parts)


def _all(own: Settings) -> Iterator[tuple[str, BaseModel, BaseModel]]:
    default = Settings()
    yield PREFIX, own, default
    for name in Settings.model_fields:
        branch = getattr(own, name)
        if isinstance(branch, BaseModel):
            yield f"{PREFIX}{name.upper()}__", branch, getattr(default, name)


def _about(of: BaseModel) -> str:
    return " ".join((type(of).__doc__ or "").split())


def _settings(of: BaseModel, default: BaseModel, path: str, environment: Mapping[str, str]) -> Iterator[Setting]:
    for name, field in type(of).model_fields.items():
        variable = f"{path}{name.upper()}"
        if not isinstance(getattr(of, name), BaseModel):
            usual = _default_text(getattr(default, name))
            value = environment.get(variable, usual)
            shown = _without_secret(value) if name in SECRETS else value
            yield Setting(variable, shown, usual, variable in environment, " ".join((field.description or "").split()))


def _default_text(default: object) -> str:
    return "" if default is None or default in ((), {}) else str(default)


def _without_secret(address: str) -> str:
    """A store or webhook without what lets one in: passwords, paths of webhooks, and what comes after a "?"."""
    scheme, stands, rest = address.partition("://")
    if not stands:
        return address
    if scheme in {"http", "https"}:
        return f"{scheme}://{re.split(r'[/?#]', rest)[0]}/{SECRET}"
    user, has_user, place = rest.rpartition("@")
    if set(user) & set("/?#"):
        return f"{scheme}://{SECRET}"  # an invalid address may hold a password anywhere
    name, has_password, _ = user.partition(":")
    shown = f"{scheme}://{name}{f':{SECRET}' if has_password else ''}{has_user}{place.partition('?')[0]}"
    return shown + (f"?{SECRET}" if "?" in place else "")
