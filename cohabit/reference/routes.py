"""Every route of all listeners, who may ask it, what it takes and what it answers, from their OpenAPI documents."""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from advisor.admission.admission_advice import AdmissionAdvice
from advisor.admission.room_file import NewestRooms
from advisor.api.app import create_app
from advisor.api.http.openapi import described
from advisor.api.http.roles import roles_of
from advisor.api.scheduler.admission import create_admission_app
from advisor.api.scheduler.scheduler_app import create_scheduler_app
from advisor.placement.model_state import Serving
from advisor.placement.prioritizer import Prioritizer
from cohabit.reference.markdown import NONE, as_text, code, page, table
from models.registry.registry import Registry

Json = Mapping[str, Any]
ABOUT = (
    "Every route, from the OpenAPI documents that the listeners serve under `/openapi.json`. Who may ask counts where "
    "`COHABIT_ADVISOR__AUTH=token`; a route that asks for a token then also answers 401, 403, 429 and 503. The "
    "listeners for schedulers and kube-apiserver know no tokens. "
    "[Access](../access.md) has tokens and roles, [pages](../pages.md) what is for browsers. `make reference` writes "
    "this page."
)


def listeners() -> dict[str, FastAPI]:
    """All applications over nothing, by what they are for."""
    serving = Serving(Path(), Registry(Path()), 1.0, lambda: 0, CollectorRegistry())
    prioritizer = Prioritizer(serving)
    return {
        "For people and tools": create_app(serving),
        "For schedulers": create_scheduler_app(prioritizer),
        "For kube-apiserver": create_admission_app(AdmissionAdvice(prioritizer, NewestRooms(Path()), "advise", str)),
    }


def routes_page() -> str:
    """The reference of the interface by HTTP."""
    return page("HTTP API", ABOUT, (part for title, app in listeners().items() for part in _listener(title, app)))


def _listener(title: str, app: FastAPI) -> Iterator[str]:
    document: Json = described(app, None)
    roles = roles_of(app)
    yield f"## {title}\n"
    yield table(("route", "who may"), ((code(name), ", ".join(who)) for name, who in sorted(roles.items(), key=_place)))
    for path, methods in document["paths"].items():
        for method, of in methods.items():
            yield _route(f"{method.upper()} {path}", of)
    yield f"### Types {title[:1].lower()}{title[1:]}\n"
    for name, schema in sorted(document["components"]["schemas"].items()):
        yield _type(name, schema)


def _place(entry: tuple[str, Collection[str]]) -> tuple[str, ...]:
    method, _, path = entry[0].partition(" ")
    return path, method


def _route(name: str, of: Json) -> str:
    parts = [f"### {name}\n", f"{as_text(of.get('description', ''))}\n"]
    if given := of.get("parameters"):
        rows = [_parameter(one) for one in given]
        parts.append(table(("parameter", "in", "type", "default", "meaning"), rows))
    if (body := of.get("requestBody")) is not None:
        parts.append(f"Body: {_content(body)}\n")
    answers = ((code(status), _content(one), as_text(one["description"])) for status, one in sorted(_answers(of)))
    parts.append(table(("status", "body", "when"), answers))
    return "\n".join(parts)


def _answers(of: Json) -> Iterator[tuple[str, Json]]:
    for status, one in of["responses"].items():
        plain = one["description"] == "Successful Response"
        yield status, {**one, "description": "The answer"} if plain else one


def _parameter(one: Json) -> tuple[str, ...]:
    schema = one["schema"]
    default = "needed" if one.get("required") else code(_text(schema.get("default")))
    return code(one["name"]), one["in"], kind(schema), default, as_text(one.get("description", ""))


def _content(of: Json) -> str:
    return " or ".join(kind(one["schema"]) for one in of.get("content", {}).values() if one.get("schema")) or NONE


def _type(name: str, schema: Json) -> str:
    head = f"**{name}**: {as_text(' '.join(schema.get('description', '').split())) or kind(schema)}\n"
    rows = [
        (
            code(field),
            kind(of),
            "yes" if field in schema.get("required", ()) else "no",
            as_text(of.get("description", "")),
        )
        for field, of in schema.get("properties", {}).items()
    ]
    return f"{head}\n{table(('field', 'type', 'needed', 'meaning'), rows)}" if rows else head


def kind(schema: Json) -> str:
    """Of which type something is, in a few words."""
    if "$ref" in schema:
        return str(schema["$ref"]).rsplit("/", 1)[-1]
    if options := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(dict.fromkeys(kind(one) for one in options))
    if choices := schema.get("enum", [schema["const"]] if "const" in schema else None):
        return ", ".join(code(_text(one)) for one in choices)
    if schema.get("type") == "array":
        return f"list of {kind(schema.get('items') or {})}"
    if schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {kind(schema['additionalProperties'])}"
    of = schema.get("type", "anything")
    return " or ".join(of) if isinstance(of, list) else f"{of}{_bounds(schema)}"


def _bounds(schema: Json) -> str:
    low = schema.get("minimum", schema.get("minLength"))
    high = schema.get("maximum", schema.get("maxLength"))
    above = f" above {schema['exclusiveMinimum']}" if "exclusiveMinimum" in schema else ""
    sized = " characters" if {"minLength", "maxLength"} & schema.keys() else ""
    if low is None and high is None:
        return above
    return f"{above}{'' if low is None else f' from {low}'}{'' if high is None else f' up to {high}'}{sized}"


def _text(value: object) -> str:
    return "" if value is None else str(value)
