"""Which reference pages there are, and who writes each."""

from collections.abc import Callable
from typing import Any

from cohabit.config.describe import as_markdown, sections
from cohabit.config.settings import Settings


def _settings(_: Any) -> str:
    return as_markdown(sections(Settings(), {}))


def _commands(root: Any) -> str:
    from cohabit.reference.commands import commands_page

    return commands_page(root)


def _api(_: Any) -> str:
    from cohabit.reference.routes import routes_page

    return routes_page()


def _metrics(_: Any) -> str:
    from cohabit.reference.exported import metrics_page

    return metrics_page()


def _tables(_: Any) -> str:
    from cohabit.reference.table_pages import tables_page

    return tables_page()


def _features(_: Any) -> str:
    from cohabit.reference.feature_pages import features_page

    return features_page()


PAGES: dict[str, Callable[[Any], str]] = {
    "settings.md": _settings,
    "reference/cli.md": _commands,
    "reference/api.md": _api,
    "reference/metrics.md": _metrics,
    "reference/tables.md": _tables,
    "reference/features.md": _features,
}
"""Writers by path in docs/. Each takes the root of the command line and imports what it describes when it runs."""
