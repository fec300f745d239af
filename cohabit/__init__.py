"""Command line, settings and long-running processes, where everything is wired together; and a library for notebooks.

    import cohabit
    rows = cohabit.read("usage", since="2026-03-01").to_polars()
    slow = cohabit.load_model().predict(cohabit.read("training"))

Both load what they need when they are first asked for, so that `import cohabit` costs nothing.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cohabit.library import Rows, SlowdownModel, load_model, read

__all__ = ["Rows", "SlowdownModel", "load_model", "read"]


def __getattr__(name: str) -> object:
    """What `__all__` names, from `cohabit.library`."""
    if name not in __all__:
        raise AttributeError(f"module 'cohabit' has no attribute {name!r}")
    from cohabit import library

    return getattr(library, name)
