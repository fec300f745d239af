"""Explanations: SHAP values of trees, for people."""
