"""The same jobs on Spark, the only place that imports it."""
