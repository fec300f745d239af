"""The forms of quotes: fields as they were filled in, and what they ask for. Pure."""

from collections.abc import Mapping

from advisor.billing.quotes.cost_estimate import Need
from advisor.billing.quotes.errors import invalid_request
from advisor.billing.quotes.service import Ask

RESOURCES = (("cpu", "cores"), ("memory", "GiB"), ("gpu", "GPUs"))
"""That the forms ask about, and their units."""
LONGEST = 253


def ask_of(form: Mapping[str, str], own: str | None) -> Ask:
    """What a form asks for.

    Args:
        form: its fields; `kind` says which of the two it is.
        own: the only team that is quoted for; None where the form names one.

    Raises:
        Invalid: a field cannot be read.
    """
    amounts = ((name, _units(form, f"request-{name}"), _units(form, f"use-{name}")) for name, _ in RESOURCES)
    needs = tuple(Need(*of) for of in amounts if of[1:] != (None, None))
    hours = _hours(form)
    if form.get("kind") == "running":
        container = _name(form, "container")
        if container is None:
            raise invalid_request("name a running container")
        return Ask(container, needs, move_to=_name(form, "move_to"), hours=hours)
    named = {name: _name(form, name) for name in ("app", "tier", "node", "pool")}
    return Ask(needs=needs, team=own or _name(form, "team"), hours=hours, **named)


def _name(form: Mapping[str, str], field: str) -> str | None:
    text = form.get(field, "").strip()
    if len(text) > LONGEST:
        raise invalid_request(f"field {field} has {len(text)} characters (limit {LONGEST})")
    return text or None


def _units(form: Mapping[str, str], field: str) -> float | None:
    """A number of a field; None where it is empty."""
    text = form.get(field, "").strip()
    try:
        return float(text) if text else None
    except ValueError as error:
        raise invalid_request(f"{field.replace('-', ' of ')} is {text[:40]!r}: write a number such as 1.5") from error


def _hours(form: Mapping[str, str]) -> int:
    text = form.get("hours", "").strip() or "1"
    if not text.isdecimal() or len(text) > 6:
        raise invalid_request(f"hours are {text[:40]!r}: write a whole number such as 720")
    return int(text)
