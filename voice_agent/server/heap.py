"""Keeps the garbage collector's work small and regular in a process that must not pause.

A call that has ended is a web of references in circles (session, tasks, peer connection), which only a full collection
frees. Python puts those off until a quarter of all objects are new, and each one looks at every object there is: with
the 200,000 of the imported packages, calls were kept for minutes and the event loop then stood still for 0.1 s.
"""

from __future__ import annotations

import ctypes
import gc
import sys


def settle() -> None:
    """Take all objects there are out of the collector's sight; call it once, when everything shared is loaded.

    Full collections then see the objects of calls alone: they take milliseconds, and come every few calls.
    """
    gc.collect()
    gc.freeze()
    gc.collect()  # also the collector's idea of how many objects live long, which decides when it comes again


def give_back() -> None:
    """Free what ended calls have left, and return it to the system; a pause of some milliseconds.

    glibc keeps freed memory for whatever comes next, 20 to 60 MB after a few calls at a time.
    """
    gc.collect()
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:
        trim(0)
