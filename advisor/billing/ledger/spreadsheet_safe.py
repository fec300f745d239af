"""Cells: texts of a table as a spreadsheet has to show them. Kernel."""

import pyarrow as pa
import pyarrow.compute as pc

FORMULA = r"^([=+\-@\t\r])"
"""How a cell begins that a spreadsheet would work out instead of showing it."""


def as_text(table: pa.Table) -> pa.Table:
    """The same, with no text that a spreadsheet takes for a formula: an apostrophe stands before it.

    Args:
        table: any columns; names in it may come from anybody.

    Returns:
        The same rows; null stays null, and what is no text stays as it is.

    Raises:
        Nothing.

    Source: OWASP, "CSV injection".
    """
    for place, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            safe = pc.replace_substring_regex(table[field.name], FORMULA, r"'\1")
            table = table.set_column(place, field.name, safe)
    return table
