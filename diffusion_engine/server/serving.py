"""Runs the application under uvicorn until it is told to stop."""

from __future__ import annotations

import signal
import socket
from types import FrameType

import uvicorn

from diffusion_engine.server.app import create_app
from diffusion_engine.server.served_model import ServedModel

DRAIN_S = 10
"""How long running requests may go on after SIGTERM, in seconds."""


class _Server(uvicorn.Server):
    """Says when it is ready, and drains the engine when it is told to exit."""

    def __init__(self, config: uvicorn.Config, model: ServedModel, url: str) -> None:
        super().__init__(config)
        self._model = model
        self._url = url

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            print(f"diffusion-engine: {self._model.name} is ready at {self._url}", flush=True)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._model.engine.drain()
        super().handle_exit(sig, frame)


def serve(model: ServedModel, listener: socket.socket, *, api_key: str | None) -> int:
    """Serve until SIGTERM or SIGINT; requests that run then have `DRAIN_S` to end.

    Args:
        model: loaded; its engine is started and stopped here.
        listener: bound; closed here.
        api_key: see `create_app`.

    Returns:
        The exit status.
    """
    host, port = listener.getsockname()[:2]
    url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    config = uvicorn.Config(
        create_app(model, api_key=api_key),
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=DRAIN_S,
        timeout_keep_alive=75,
    )
    # uvicorn raises the signal that stopped it once more when it is done; by then there is nothing left to stop.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    with listener:
        _Server(config, model, url).run(sockets=[listener])
    return 0
