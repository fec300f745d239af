"""The chart of deploy/helm, by the released Helm and against a real Kubernetes API."""
