"""The model registry: versions, gate results, promotion, model cards."""
