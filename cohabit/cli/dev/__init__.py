"""Commands for trying Cohabit without a cluster."""
