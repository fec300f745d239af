"""The released kustomize."""
