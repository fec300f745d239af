"""Export to ONNX, equal to the bit."""
