"""The `voice-agent` command: serve calls, run the speech process alone, measure."""

from __future__ import annotations

import argparse
import asyncio
import datetime as dt
import importlib
import logging
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from voice_agent.config import ConfigurationError, load_settings

_SERVE = """Start the speech and engine processes, wait until they are warm, take calls in the browser.

Everything here can also be set in the environment, as VOICE_AGENT_<OPTION>. Secrets can be set only there:
VOICE_AGENT_TOKEN (needed beyond loopback) and VOICE_AGENT_LLM_API_KEY."""


def build_parser() -> argparse.ArgumentParser:
    """The options of all subcommands."""
    parser = argparse.ArgumentParser(prog="voice-agent", description=__doc__)
    parser.add_argument("--log-level", default="warning", choices=["debug", "info", "warning", "error"])
    commands = parser.add_subparsers(dest="command", required=True, title="commands")

    serve = commands.add_parser(
        "serve", help="take calls", description=_SERVE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    serve.add_argument("--host", help="address to listen on (default: 127.0.0.1)")
    serve.add_argument("--port", type=int, help="port of page and API; 0 for any free one (default: 8080)")
    serve.add_argument("--model", type=Path, help="model folder for our engine (default: the embedded model)")
    serve.add_argument(
        "--dtype", choices=["fp32", "bf16", "fp16", "int8"], help="of the engine's weights (embedded: int8)"
    )
    serve.add_argument("--llm-url", help="another OpenAI-compatible endpoint, up to and including /v1")
    serve.add_argument("--llm-model", help="name of the model at --llm-url")
    serve.add_argument("--database", type=Path, help="SQLite file of the bookings")
    serve.add_argument("--record-dir", type=Path, help="folder of the calls' records")
    serve.add_argument("--today", type=_date, metavar="YYYY-MM-DD", help="take calls as if it were this day")
    serve.add_argument("--max-calls", type=int, help="calls at a time (default: 4)")
    serve.add_argument("--ice-servers", help="STUN or TURN URLs, comma-separated (default: none)")

    speech = commands.add_parser("speech", help="run the speech process alone", add_help=False)
    speech.add_argument("rest", nargs=argparse.REMAINDER)

    bench = commands.add_parser("bench", help="measure; without a name, list what can be measured", add_help=False)
    bench.add_argument("name", nargs="?")
    bench.add_argument("rest", nargs=argparse.REMAINDER)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand; returns the exit status."""
    given = list(sys.argv[1:] if argv is None else argv)
    options, unknown = build_parser().parse_known_args(given)
    logging.basicConfig(level=options.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    if options.command == "speech":
        from voice_agent.speech.cli import main as speech

        return speech(given[given.index("speech") + 1 :])
    if options.command == "bench":
        return _bench(options.name, given)
    if unknown:
        build_parser().error(f"unrecognized arguments: {' '.join(unknown)}")
    return _serve(options)


def _serve(options: argparse.Namespace) -> int:
    given = {key: value for key, value in vars(options).items() if key not in ("command", "log_level")}
    try:
        settings = load_settings(**given)
    except ConfigurationError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    # Audio is 20 ms frames of a few kilobytes: numeric libraries need no threads here.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    try:
        listener = socket.create_server((settings.host, settings.port), backlog=128)
    except OSError as error:
        print(
            f"error: port {settings.port} on {settings.host} can't be used ({error.strerror or error}): "
            "end what listens there, or choose another one with --port",
            file=sys.stderr,
        )
        return 1
    # Connections inherit it; asyncio sets it only where a socket's protocol number was given.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with listener:
        # Imported here: a wrong option or a taken port is told at once.
        from voice_agent.server.serve import serve

        try:
            return asyncio.run(serve(settings, listener))
        except KeyboardInterrupt:
            return 130


def _bench(name: str | None, given: list[str]) -> int:
    """Run ``voice_agent.bench.<name>``, which brings a ``main(argv)``."""
    from voice_agent import bench

    folder = Path(bench.__path__[0])
    names = [path.stem for path in sorted(folder.glob("*.py")) if "\ndef main(" in path.read_text(encoding="utf-8")]
    if name is None or name.replace("-", "_") not in names:
        print(f"usage: voice-agent bench NAME [options]; names: {', '.join(names)}", file=sys.stderr)
        return 0 if name in (None, "--help", "-h") else 2
    module = importlib.import_module(f"voice_agent.bench.{name.replace('-', '_')}")
    return int(module.main(given[given.index(name) + 1 :]) or 0)


def _date(text: str) -> dt.date:
    try:
        return dt.date.fromisoformat(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no date of the form YYYY-MM-DD") from error


if __name__ == "__main__":
    sys.exit(main())
