"""The first thing a watched process runs: fall in priority, agree to die with the parent, become the program.

Run as a script, `child.py PARENT NICE PROGRAM [ARGUMENT ...]`, without importing the package. It stands where a hook
between fork and exec would, because Python code must not run there in a process with threads.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(parent: int, nice: int, command: list[str]) -> None:
    """Never returns: the process becomes ``command``."""
    if nice:
        os.nice(nice)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            sys.exit(1)  # it died before we could agree
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.exit(f"error: {command[0]} can't be started: {error}")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
