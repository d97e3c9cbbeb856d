"""Thread counts of the numeric libraries. Imports nothing numeric: it must run before they do."""

from __future__ import annotations

import os
from collections.abc import MutableMapping

_PINNED = {
    # The mel product otherwise leaves an OpenBLAS thread spinning for about 110 ms after every pass.
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMEXPR_NUM_THREADS": "1",
    # CTranslate2 asks for its own number of OpenMP threads; they sleep when they wait.
    "OMP_WAIT_POLICY": "PASSIVE",
    "KMP_BLOCKTIME": "0",
}


def pin_threads(environment: MutableMapping[str, str] | None = None) -> None:
    """Pin the libraries' thread pools and forbid spinning; call before the first import of numpy."""
    environment = os.environ if environment is None else environment
    for name, value in _PINNED.items():
        environment[name] = value
