"""Training: fits each part of a model."""
