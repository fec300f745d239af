"""Price book file: a version of the price book from a file of TOML. An edge."""

from pathlib import Path

from advisor.billing.lines.errors import BadBookText
from advisor.billing.pricing.price_book import PriceBook
from advisor.billing.pricing.price_book_toml import price_book_from
from cohabit.config.errors import CohabitError

MAX_BYTES = 1 << 20


def read_price_book(path: Path, proposed_by: str) -> PriceBook:
    """A version of the price book from a file.

    Args:
        path: TOML, see advisor.billing.pricing.price_book_toml.EXAMPLE.
        proposed_by: the user who proposes it.

    Raises:
        CohabitError: it cannot be read, or something in it is missing, unknown or out of range.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise _bad_price_book_file(path, error.strerror or str(error)) from error
    if len(content) > MAX_BYTES:
        raise _bad_price_book_file(path, f"it has {len(content)} bytes, and {MAX_BYTES} are the most")
    try:
        return price_book_from(content.decode(), proposed_by)
    except (BadBookText, UnicodeDecodeError) as error:
        raise _bad_price_book_file(path, str(error)) from error


def _bad_price_book_file(path: Path, reason: str) -> CohabitError:
    return CohabitError(f"{path}: {reason}; `cohabit bill propose-book` without a file prints an example")
