"""The `diffusion-engine` command."""

from __future__ import annotations

import argparse
import ipaddress
import logging
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from diffusion_engine.bench.arguments import add_arguments as add_bench_arguments

API_KEY_VARIABLE = "DIFFUSION_ENGINE_API_KEY"
"""One key, or several divided by commas."""


class UsageError(Exception):
    """What the user can mend; printed as one line."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand.

    Returns:
        The exit status: 0, 1 for something the user can mend (said in one line on stderr), 2 for wrong arguments.
    """
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=options.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        return int(options.run(options))
    except UsageError as mendable:
        print(f"diffusion-engine: {mendable}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="diffusion-engine", description=__doc__)
    parser.add_argument("--log-level", default="warning", choices=["debug", "info", "warning", "error"])
    commands = parser.add_subparsers(title="commands", required=True)

    serve = commands.add_parser("serve", help="serve a model over an OpenAI-compatible API")
    serve.set_defaults(run=_serve)
    serve.add_argument("--model", type=Path, help="checkpoint folder; default: the embedded model")
    serve.add_argument("--name", help="as clients call the model; default: the folder's name")
    serve.add_argument("--host", default="127.0.0.1")
    serve.add_argument("--port", type=int, default=8000, help="0 takes a free one")
    serve.add_argument(
        "--threads", type=_positive, help="of the computation; default: the physical cores, with ONNX Runtime 1"
    )
    serve.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N; nothing was run on a GPU yet")
    serve.add_argument(
        "--dtype", choices=["fp32", "bf16", "fp16", "int8"], help="of the weights; default: fp32, on a GPU bf16"
    )
    serve.add_argument(
        "--runner",
        choices=["auto", "torch", "onnx", "static"],
        default="auto",
        help="what computes; auto: ONNX Runtime for int8 on the CPU, static shapes (CUDA graphs) on a GPU, both where "
        "they have the model's layers, else torch",
    )
    serve.add_argument("--max-requests", type=_positive, default=8, help="that run at the same time")
    serve.add_argument("--max-waiting", type=_not_negative, default=32, help="that wait beyond those; then 503")
    serve.add_argument("--timeout", type=float, default=120.0, metavar="SECONDS", help="of one request")
    serve.add_argument("--rate-limit", type=_positive, metavar="N", help="requests a minute and key; then 429")
    serve.add_argument(
        "--kv-tokens",
        type=_positive,
        help="size of the KV pool; default: one context, at least 8192; on a GPU two a request, as memory allows",
    )
    serve.add_argument("--no-prefix-cache", action="store_true", help="keep no text for later requests")

    conformance = commands.add_parser("conformance", help="put an OpenAI-compatible endpoint through the API suite")
    conformance.set_defaults(run=_conformance)
    conformance.add_argument("--url", required=True, help="of the endpoint, with or without /v1")
    conformance.add_argument("--model", help="as the endpoint calls it; default: the first that it lists")
    conformance.add_argument("--api-key-env", metavar="VAR", help="environment variable that holds the key")
    conformance.add_argument(
        "--limited-key-env", metavar="VAR", help="the same of a key whose rate limit may be used up"
    )
    conformance.add_argument(
        "--overload", type=_not_negative, default=0, metavar="N", help="requests at once that fill it"
    )
    conformance.add_argument("--json", type=Path, metavar="FILE", help="write the outcomes there as well")

    bench = commands.add_parser(
        "bench", help="measure latency, throughput and quality, beside baselines on the same weights"
    )
    bench.set_defaults(run=_bench)
    add_bench_arguments(bench, _positive)

    prepare = commands.add_parser("prepare", help="put the embedded model together (once)")
    prepare.set_defaults(run=_prepare)
    return parser


def _serve(options: argparse.Namespace) -> int:
    keys = [key.strip() for key in os.environ.get(API_KEY_VARIABLE, "").split(",") if key.strip()]
    if not keys and not _is_loopback(options.host):
        raise UsageError(f"--host {options.host} is open to others: set {API_KEY_VARIABLE} to a key of your choice")
    listener = _listen(options.host, options.port)
    _pin_threads(options.threads or _physical_cores())

    from diffusion_engine.models import CheckpointError
    from diffusion_engine.runtime import Limits
    from diffusion_engine.server.access import Access
    from diffusion_engine.server.served_model import load_served_model
    from diffusion_engine.server.serving import serve

    try:
        model = load_served_model(
            options.model or _embedded_model_folder(),
            name=options.name,
            dtype=options.dtype,
            device=options.device,
            limits=Limits(
                max_requests=options.max_requests,
                max_waiting=options.max_waiting,
                timeout_s=options.timeout,
                prefix_cache=not options.no_prefix_cache,
            ),
            kv_tokens=options.kv_tokens,
            runner=options.runner,
            threads=options.threads,
        )
    except (CheckpointError, ValueError) as unusable:
        raise UsageError(str(unusable)) from unusable
    return serve(model, listener, Access(keys, options.rate_limit))


def _conformance(options: argparse.Namespace) -> int:
    from diffusion_engine.conformance.command import base_url, first_model, run
    from diffusion_engine.conformance.suite import Endpoint

    key, limited = _key(options.api_key_env), _key(options.limited_key_env)
    url = base_url(options.url)
    try:
        model = options.model or first_model(url, key)
    except ConnectionError as unreachable:
        raise UsageError(str(unreachable)) from unreachable
    endpoint = Endpoint(url, model, key, overload=options.overload, limited_key=limited)
    try:
        return run(endpoint, options.json)
    finally:
        endpoint.close()


def _key(variable: str | None) -> str:
    if variable is None:
        return ""
    if not os.environ.get(variable):
        raise UsageError(f"the environment variable {variable} is not set")
    return os.environ[variable]


def _bench(options: argparse.Namespace) -> int:
    _pin_threads(options.threads or _physical_cores())

    from diffusion_engine.bench.command import needs_model, run
    from diffusion_engine.models import CheckpointError

    folder = (options.model or _embedded_model_folder()) if needs_model(options) else None
    try:
        run(options, folder)
    except (CheckpointError, ValueError) as unusable:
        raise UsageError(str(unusable)) from unusable
    return 0


def _prepare(options: argparse.Namespace) -> int:
    from diffusion_engine.checkpoints import prepare
    from diffusion_engine.models import CheckpointError

    try:
        prepare()
    except CheckpointError as unusable:
        raise UsageError(str(unusable)) from unusable
    return 0


def _pin_threads(threads: int) -> None:
    """Fix the number of computing threads, and let those that wait sleep: they share the cores with speech and calls.

    Must come before torch is imported.
    """
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    os.environ.setdefault("GOMP_SPINCOUNT", "0")
    import torch

    torch.set_num_threads(threads)


def _embedded_model_folder() -> Path:
    from diffusion_engine.checkpoints import embedded_model_folder

    folder = embedded_model_folder()
    if not (folder / "config.json").is_file():
        raise UsageError("the embedded model is not put together yet: run `diffusion-engine prepare`")
    return folder


def _listen(host: str, port: int) -> socket.socket:
    """Bind first: a taken port is told before a model is loaded."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=128)
    except (OSError, OverflowError) as refused:
        raise UsageError(
            f"can't listen on {host}:{port}: {refused}; choose another with --host and --port"
        ) from refused
    # Connections inherit this. asyncio would set it only on sockets whose protocol number is given; without it, the
    # first token waits behind the response's head for the client's delayed acknowledgement: 40 ms on Linux.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _physical_cores() -> int:
    """Cores that this process may use, hyper-threads counted once where the system tells them apart."""
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
    cores = set()
    for cpu in allowed:
        try:
            cores.add(Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read_text())
        except OSError:
            cores.add(str(cpu))
    return max(1, len(cores))


def _not_negative(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"must not be negative, but is {value}")
    return value


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {value}")
    return value


if __name__ == "__main__":
    sys.exit(main())
