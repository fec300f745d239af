"""Usage metering: what each container reserves and uses by the hour. Kernels."""
