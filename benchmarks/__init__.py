"""Speed, memory and accuracy figures: `python -m benchmarks NAME`."""
