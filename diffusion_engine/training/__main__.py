"""`python -m diffusion_engine.training --help`."""

import sys

from diffusion_engine.training.command import main

if __name__ == "__main__":
    sys.exit(main())
