"""Admission: true harm by pods that are advised while they are created, next to those scored by the extender."""
