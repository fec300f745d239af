"""Bundles: model files, manifest, margins, signatures."""
