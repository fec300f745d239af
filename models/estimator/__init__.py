"""Estimators that predict: feature matrix, fitted model, ONNX session, fallback."""
