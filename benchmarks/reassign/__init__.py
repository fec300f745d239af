"""Public reassignment problems: their formats and rules, and how well the engine does on them."""
