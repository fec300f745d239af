"""Labels: slowdown against the app's own baseline. Kernels."""
