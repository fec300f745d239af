"""Arrow's datasets, imported without pandas.

Arrow looks for pandas when it is first given a value, as `pyarrow.dataset` does while it is imported. Where Spark needs
pandas installed, every command would wait a second for it and hold 44 MB that it never uses. Arrow asks once: who
imports pandas later still gets it, only tables of Arrow are not made into frames of pandas in this process.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder

import pyarrow as pa
from pyarrow.fs import FileSystem


class _NoPandas(MetaPathFinder):
    """Says that there is no pandas, and nothing of other modules."""

    def find_spec(self, fullname: str, _path: object = None, _target: object = None, /) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


@contextmanager
def _without_pandas() -> Iterator[None]:
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


with _without_pandas():
    import pyarrow.dataset as ds

__all__ = ["dataset_of", "ds"]


def dataset_of(paths: Sequence[str], schema: pa.Schema | None, files: FileSystem | None = None) -> ds.Dataset:
    """Rows of Parquet files, in a schema, or in that of the first; texts that it wants as codes are never spelt out."""
    coded = [one.name for one in schema or () if pa.types.is_dictionary(one.type)]
    form = ds.ParquetFileFormat(dictionary_columns=coded)
    return ds.dataset(list(paths), schema=schema, filesystem=files, format=form)
