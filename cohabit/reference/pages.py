"""Which reference pages there are, and who writes each."""

from collections.abc import Callable

from cohabit.config.describe import as_markdown, sections
from cohabit.config.settings import Settings


def _settings() -> str:
    return as_markdown(sections(Settings(), {}))


def _commands() -> str:
    from cohabit.cli.main import app
    from cohabit.reference.commands import commands_page

    return commands_page(app)


def _api() -> str:
    from cohabit.reference.routes import routes_page

    return routes_page()


def _metrics() -> str:
    from cohabit.reference.exported import metrics_page

    return metrics_page()


def _tables() -> str:
    from cohabit.reference.table_pages import tables_page

    return tables_page()


def _features() -> str:
    from cohabit.reference.feature_pages import features_page

    return features_page()


PAGES: dict[str, Callable[[], str]] = {
    "settings.md": _settings,
    "reference/cli.md": _commands,
    "reference/api.md": _api,
    "reference/metrics.md": _metrics,
    "reference/tables.md": _tables,
    "reference/features.md": _features,
}
"""By their path in docs/. Each imports what it tells of when it is written."""
