"""Latency, throughput and quality, against named peers on the same weights: `diffusion-engine bench`."""
