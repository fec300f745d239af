"""Learn slowdown, ship it as ONNX, serve it lightly."""

import os

os.environ["ORT_DISABLE_TELEMETRY"] = "1"
"""Before onnxruntime is imported, which else would tell its makers what runs here, and keep a device's name."""
