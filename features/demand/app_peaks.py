"""App peaks: what containers of an app rarely use more than, whichever of them and wherever. Kernel."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from features.columnar.arrow_columns import Floats, floats

RATIO = 1.05
"""Between sizes that are distinguished; what is given is the upper one."""
QUANTILE = 0.99
FEWEST = 1440
"""Minutes of containers that an app must have been measured in: a day of one, or less of several."""


class AppPeaks:
    """Minutes of containers by app and size; any number of tables, one after the other."""

    def __init__(self) -> None:
        self._minutes: Counter[tuple[str, int]] = Counter()

    def add(self, app: pa.ChunkedArray, share: pa.ChunkedArray, whole: Floats) -> None:
        """Count minutes.

        Args:
            app: (n,) of each container's minute; null is left out.
            share: (n,) its use as a share of the node; missing values and zeros are left out, which can only raise
                what is given.
            whole: (n,) what the node has, cores or bytes; NaN is left out.
        """
        value = floats(share) * whole
        known = (value > 0) & np.asarray(pc.is_valid(app))
        code = pc.dictionary_encode(app.combine_chunks())
        size = np.ceil(np.log(value[known]) / np.log(RATIO)).astype(np.int64)
        names = np.asarray(code.indices.fill_null(0))[known]
        pairs, count = np.unique(np.column_stack([names, size]), axis=0, return_counts=True)
        words = code.dictionary.to_pylist()
        for (name, of), number in zip(pairs.tolist(), count.tolist(), strict=True):
            self._minutes[words[name], of] += number

    def of(self, apps: pa.Array) -> Floats:
        """What containers of apps use at most in QUANTILE of their minutes.

        Args:
            apps: (k,) names, null where not known.

        Returns:
            (k,) cores or bytes; NaN for an app that was measured in fewer than FEWEST minutes.

        Raises:
            Nothing.

        Source: ours; percentiles by app as in Google's Autopilot, Rzadca et al., EuroSys 2020.
        """
        sizes: dict[str, list[tuple[int, int]]] = {}
        for (name, size), number in sorted(self._minutes.items()):
            sizes.setdefault(name, []).append((size, number))
        peaks = {name: _peak(found) for name, found in sizes.items()}
        return np.array([peaks.get(name, np.nan) for name in apps.to_pylist()], np.float64)

    def largest(self, apps: pa.Array) -> Floats:
        """(k,) cores or bytes that a container of each app used at most in any minute; NaN without any minute."""
        most: dict[str, int] = {}
        for name, size in self._minutes:
            most[name] = max(size, most.get(name, size))
        return np.array([RATIO ** most[name] if name in most else np.nan for name in apps.to_pylist()], np.float64)


def _peak(found: list[tuple[int, int]]) -> float:
    size, number = np.array(found).T
    if number.sum() < FEWEST:
        return float("nan")
    reached = int(np.searchsorted(number.cumsum(), QUANTILE * number.sum()))
    return float(RATIO ** size[min(reached, len(size) - 1)])
