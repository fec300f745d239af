"""What a plan holds, which moves are eligible, states, cooldowns. Facts and kernels."""
