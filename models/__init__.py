"""Learn slowdown, ship it as ONNX, serve it lightly."""

import os

os.environ["ORT_DISABLE_TELEMETRY"] = "1"
"""Set before onnxruntime is imported, which otherwise sends telemetry to its makers and stores a device's name."""
