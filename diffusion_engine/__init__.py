"""A serving engine for diffusion language models."""
