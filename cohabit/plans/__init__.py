"""Plans: creation, dry run, outcomes."""
