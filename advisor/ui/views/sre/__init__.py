"""Pages for SREs: cluster, nodes, victims, plans."""
