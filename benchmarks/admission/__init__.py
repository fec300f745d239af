"""Admission: true harm by pods that are advised while they are created, beside those scored by the extender."""
