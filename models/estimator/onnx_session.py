"""Runtime: run an exported graph with onnxruntime on one thread. An edge; imports nothing that trains.

One thread is a matter of exactness before speed: with more, onnxruntime adds the trees in another order.
"""

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from weakref import WeakValueDictionary

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray
from onnxruntime.capi import onnxruntime_pybind11_state as refusals

from models.data.dataset import refuse_other_widths
from models.errors import ModelsError

Floats = NDArray[np.float64]
REFUSALS = (
    refusals.Fail,
    refusals.InvalidArgument,
    refusals.InvalidGraph,
    refusals.InvalidProtobuf,
    refusals.NoSuchFile,
    refusals.NotImplemented,
)
"""What onnxruntime raises on a graph it cannot run; they share no class of their own."""


@dataclass(frozen=True)
class Graph:
    """A loaded ONNX graph: reads (n, width) doubles, gives the named (n,) outputs."""

    session: ort.InferenceSession
    width: int
    outputs: tuple[str, ...]

    def predict(self, features: Floats) -> dict[str, Floats]:
        """Every output of the graph, by name.

        Args:
            features: (n, width) float64, any memory order; NaN follows the trees.

        Returns:
            One (n,) float64 array per output; its values do not depend on n.

        Raises:
            ModelsError: features are not (n, width).

        Source: ours, see docs/decisions/0003-exporter.md.
        """
        self.refuse_other_widths(features)
        rows = np.ascontiguousarray(features, dtype=np.float64)
        return dict(zip(self.outputs, self.session.run(self.outputs, {"features": rows}), strict=True))

    def refuse_other_widths(self, features: Floats) -> None:
        """Raise ModelsError unless features are (n, width)."""
        refuse_other_widths(features, self.width)


_OPEN: WeakValueDictionary[bytes, Graph] = WeakValueDictionary()
"""Graphs in use, by digest: a recalibrated bundle has the graphs of the one before it."""


def load_graph(model: bytes | Path) -> Graph:
    """Open an exported graph from its bytes or its file; bytes that are open already are not opened again.

    Raises:
        ModelsError: it is not a graph, or one of a newer version than this runtime.
    """
    if isinstance(model, Path):
        return _opened(str(model))
    digest = sha256(model).digest()
    if (graph := _OPEN.get(digest)) is None:
        _OPEN[digest] = graph = _opened(model)
    return graph


def _opened(source: bytes | str) -> Graph:
    try:
        session = ort.InferenceSession(source, _options(), providers=["CPUExecutionProvider"])
    except REFUSALS as error:
        raise ModelsError(
            f"onnxruntime cannot open the graph: {error}; was it exported by a newer version? Upgrade, or roll back"
        ) from error
    outputs = tuple(output.name for output in session.get_outputs())
    return Graph(session, session.get_inputs()[0].shape[1], outputs)


def _options() -> ort.SessionOptions:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    options.enable_mem_pattern = False  # one is kept for ever for each number of rows that was ever scored
    options.enable_cpu_mem_arena = False
    return options
