"""Migrations of the database; `cohabit admin database migrate` runs those that are missing."""
