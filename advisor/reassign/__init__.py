"""Reassignment: who should be where: one problem in columns, one engine, a bound, and plans that can be carried out."""
