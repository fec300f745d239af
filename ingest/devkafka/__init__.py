"""A real single-node Kafka for demos and tests: jars, Java, broker."""
