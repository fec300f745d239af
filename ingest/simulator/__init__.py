"""A cluster that does not exist: records with every fault of a real one, and a truth that stays hidden."""
