"""Scheduler protocols: kube-scheduler extender, Volcano, load-watcher."""
