"""What makes the store's tables, step by step; `cohabit store migrate` runs the steps that a database has not had."""
