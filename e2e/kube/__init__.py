"""The real kube-scheduler, kube-apiserver and etcd, with nodes that are only objects, asking a real `cohabit serve`."""
