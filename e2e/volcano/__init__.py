"""The released clients of both extender protocols, Volcano's plugin and kube-scheduler's, asking a real advisor."""
