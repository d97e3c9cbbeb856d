"""Runs the application under uvicorn until it is told to stop."""

from __future__ import annotations

import signal
import socket
import time
from types import FrameType

import uvicorn

from diffusion_engine.server.access import Access
from diffusion_engine.server.app import create_app
from diffusion_engine.server.served_model import ServedModel

DRAIN_S = 10
"""How long running requests may go on after SIGTERM, in seconds."""
_WRITE_S = 2
"""And how long it may take to write what ended."""


class _Server(uvicorn.Server):
    """Says when it is ready, and drains the engine when it is told to exit.

    While requests still run, new ones are answered 503: who asks learns that it is worth trying elsewhere. A second
    signal stops at once.
    """

    def __init__(self, config: uvicorn.Config, model: ServedModel, url: str) -> None:
        super().__init__(config)
        self._model = model
        self._url = url
        self._drain_until: float | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            print(f"diffusion-engine: {self._model.name} is ready at {self._url}", flush=True)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self._drain_until is None and not self._model.engine.idle:
            self._drain_until = time.monotonic() + DRAIN_S
            self._model.engine.drain()
        else:
            super().handle_exit(sig, frame)

    async def on_tick(self, counter: int) -> bool:
        if self._drain_until is not None:
            if self._model.engine.idle:
                return True
            if time.monotonic() > self._drain_until:
                self._model.engine.end_all()  # and go on until their clients have been told
        return await super().on_tick(counter)


def serve(model: ServedModel, listener: socket.socket, access: Access) -> int:
    """Serve until SIGTERM or SIGINT; requests that run then have `DRAIN_S` to end.

    Args:
        model: loaded; its engine is started and stopped here.
        listener: bound; closed here.
        access: who may send requests.

    Returns:
        The exit status.
    """
    host, port = listener.getsockname()[:2]
    url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    config = uvicorn.Config(
        create_app(model, access),
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=_WRITE_S,
        timeout_keep_alive=75,
    )
    # uvicorn raises the signal that stopped it once more when it is done; by then there is nothing left to stop.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    with listener:
        _Server(config, model, url).run(sockets=[listener])
    return 0
