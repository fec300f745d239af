"""A Kubernetes cluster's pods and nodes, as placements and nodes."""
