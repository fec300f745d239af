"""The feature jobs at scale, batch and streaming: the only place that imports pyspark."""
