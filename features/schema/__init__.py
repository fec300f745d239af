"""Feature tables, the feature catalogue and errors. Facts."""
