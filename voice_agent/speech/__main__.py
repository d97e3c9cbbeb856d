"""`python -m voice_agent.speech --socket PATH`: load both models, warm them up, serve."""

from __future__ import annotations

import sys

from voice_agent.speech.threads import pin_threads

pin_threads()

from voice_agent.speech.cli import main  # noqa: E402  (after the thread counts are set)

if __name__ == "__main__":
    sys.exit(main())
