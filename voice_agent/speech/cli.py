"""The speech process's command line."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from voice_agent.speech.errors import SpeechError
from voice_agent.speech.threads import pin_threads


def build_parser() -> argparse.ArgumentParser:
    """The options of `voice-agent speech`."""
    parser = argparse.ArgumentParser(
        prog="voice-agent speech",
        description="Serve the recogniser and the voice to calls, over a WebSocket on a Unix socket. "
        "Prints one JSON line when both are loaded and warm.",
    )
    parser.add_argument("--socket", type=Path, required=True, help="path of the Unix socket")
    parser.add_argument("--stt-model", type=Path, help="faster-whisper folder (default: the packaged tiny.en)")
    parser.add_argument("--voice", type=Path, help="piper voice, NAME.onnx (default: the packaged en_US-joe-medium)")
    parser.add_argument("--cache", type=Path, help="folder of split voices (default: the user's cache folder)")
    parser.add_argument("--stt-threads", type=_threads, default=1, help="threads of a recogniser pass (default: 1)")
    parser.add_argument("--tts-threads", type=_threads, default=1, help="threads of a synthesis (default: 1)")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the process until SIGTERM or SIGINT; returns the exit status."""
    arguments = build_parser().parse_args(argv)
    pin_threads()
    try:
        asyncio.run(_serve(arguments))
    except (SpeechError, OSError) as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        return 1
    return 0


async def _serve(arguments: argparse.Namespace) -> None:
    # Imported here, so that --help is quick and the thread counts are set before numpy is there.
    from voice_agent.speech.server import SpeechServer, clear_stale_socket
    from voice_agent.speech.warmup import load_and_warm

    path: Path = arguments.socket
    clear_stale_socket(path)  # before the models are loaded for nothing
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    started = time.monotonic()
    recognizer, voice = load_and_warm(
        arguments.stt_model, arguments.voice, arguments.cache, arguments.stt_threads, arguments.tts_threads
    )
    if stop.is_set():
        return
    warmup_s = round(time.monotonic() - started, 3)
    server = SpeechServer(
        recognizer,
        voice,
        threads={"stt": arguments.stt_threads, "tts": arguments.tts_threads},
        warmup_s=warmup_s,
    )
    try:
        listener = await server.serve(path)
        try:
            ready = {"ready": True, "socket": str(path), "pid": os.getpid(), "warmup_s": warmup_s}
            print(json.dumps(ready), flush=True)
            await stop.wait()
        finally:
            listener.close()
            await listener.wait_closed()
            with contextlib.suppress(OSError):
                path.unlink()  # noqa: ASYNC240 (one system call, at the end)
    finally:
        server.close()


def _threads(text: str) -> int:
    count = int(text)
    if not 1 <= count <= 64:
        raise argparse.ArgumentTypeError(f"{count} threads; between 1 and 64 are possible")
    return count
