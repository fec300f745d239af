"""Drift: detectors, feature shift, serving status."""
