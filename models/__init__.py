"""Learn slowdown, ship it as ONNX, serve it lightly."""
