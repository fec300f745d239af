"""Orders: which SKU is bought when and for which rack, so that demand packs in every period. Kernels."""
