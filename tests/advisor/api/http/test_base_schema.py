"""Bodies: each field of what people ask and are told is described, with its unit, where they read of it."""

from collections.abc import Iterator
from importlib import import_module

from advisor.api.http.base_schema import Body


def below(kind: type[Body]) -> Iterator[type[Body]]:
    for one in kind.__subclasses__():
        yield one
        yield from below(one)


def test_every_field_of_a_body_is_described() -> None:
    import_module("advisor.api.app")
    fields = {f"{kind.__name__}.{name}": of for kind in below(Body) for name, of in kind.model_fields.items()}

    assert len(fields) > 150
    assert [name for name, of in fields.items() if not of.description] == []
