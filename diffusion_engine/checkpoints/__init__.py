"""The embedded model: a small adapter shipped with the package, joined to its packaged base once, at set-up."""

from diffusion_engine.checkpoints.assemble import embedded_model_folder, prepare

__all__ = ["embedded_model_folder", "prepare"]
