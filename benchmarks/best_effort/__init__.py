"""Best effort: what nodes' offers are worth to pods that may be evicted, and what these cost latency-sensitive ones."""
