"""Diagnosis: who suffers beside whom, how sure that is, and where nobody is to blame. Kernels."""
