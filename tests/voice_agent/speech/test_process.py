"""The real process with the real models."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.voice_agent.speech_process import start, stop
from voice_agent.bench.clips import load_clips
from voice_agent.speech.client import SpeechClient
from voice_agent.speech.errors import SpeechConnectionError
from voice_agent.speech.threads import pin_threads


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "voice_agent.speech", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


async def test_it_says_that_it_is_ready_and_with_what(speech_client: SpeechClient) -> None:
    health = await speech_client.health()
    assert health.ready
    assert health.voice == "en_US-joe-medium"
    assert health.threads == {"stt": 1, "tts": 1}
    assert health.warmup_s > 0


async def test_it_hears_and_speaks(speech_client: SpeechClient) -> None:
    clip = next(clip for clip in load_clips() if clip.name == "close")
    heard = await speech_client.transcribe(clip.pcm.tobytes(), stream="test", word_times=True)
    assert heard.text == clip.text
    assert [word.text for word in heard.words] == clip.text.split()
    assert heard.no_speech_prob < 0.3
    assert heard.compute_ms > 0
    chunks = [chunk async for chunk in speech_client.synthesize(clip.text.split(), trim_lead=True)]
    assert len(chunks) > 1
    assert [word.index for word in chunks[0].words] == list(range(7))


async def test_it_understands_its_own_voice(speech_client: SpeechClient) -> None:
    """The synthesizer's words come back through the recogniser: both ends of the process, no recording between."""
    import numpy as np
    from livekit import rtc

    words = ["Your", "table", "is", "ready.", "Please", "come", "in."]
    pcm = b"".join([chunk.pcm async for chunk in speech_client.synthesize(words)])
    resampler = rtc.AudioResampler(22_050, 16_000)
    frames = resampler.push(rtc.AudioFrame(pcm, 22_050, 1, len(pcm) // 2)) + resampler.flush()
    audio = np.concatenate([np.frombuffer(bytes(frame.data), np.int16) for frame in frames])
    heard = await speech_client.transcribe(audio.tobytes(), stream="test")
    assert heard.text.lower().replace(",", ".") == "your table is ready. please come in."


async def test_a_killed_process_is_an_error_at_once_and_found_again(tmp_path: Path) -> None:
    path = tmp_path / "speech.sock"
    process = start(path)
    client = SpeechClient(path)
    clip = load_clips()[0].pcm.tobytes()
    await client.health()
    passes = [asyncio.create_task(client.transcribe(clip, stream=str(n))) for n in range(3)]
    await asyncio.sleep(0)
    os.kill(process.pid, signal.SIGKILL)
    results = await asyncio.gather(*passes, return_exceptions=True)
    assert any(isinstance(result, SpeechConnectionError) for result in results)
    process.communicate(timeout=20)
    with pytest.raises(SpeechConnectionError):
        await client.health()
    process = start(path)  # over the socket that the killed one left behind
    assert (await client.health()).pid == process.pid
    await client.close()
    stop(process)
    assert process.returncode == 0
    assert not path.exists()


def test_it_never_imports_torch() -> None:
    code = (
        "import sys\n"
        "import voice_agent.speech.__main__, voice_agent.speech.server\n"
        "from voice_agent.speech.warmup import load_and_warm\n"
        "load_and_warm(None, None, None, 1, 1)\n"
        "import voice_agent.stt.plugin, voice_agent.tts.plugin, voice_agent.vad.livekit_vad\n"
        "sys.exit('torch' in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_threads_are_pinned_before_numpy_is_there() -> None:
    code = (
        "import sys, os\n"
        "import voice_agent.speech.threads\n"
        "assert 'numpy' not in sys.modules\n"
        "import voice_agent.speech.__main__\n"
        "sys.exit(os.environ['OPENBLAS_NUM_THREADS'] != '1')\n"
    )
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "8"}
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, env=environment)
    environment = {"OPENBLAS_NUM_THREADS": "8"}
    pin_threads(environment)
    assert environment["OPENBLAS_NUM_THREADS"] == "1"


def test_missing_models_are_named(tmp_path: Path) -> None:
    answer = run("--socket", str(tmp_path / "s"), "--voice", str(tmp_path / "none.onnx"))
    assert answer.returncode == 1
    assert "none.onnx" in answer.stderr
    assert "--voice" in answer.stderr
    answer = run("--socket", str(tmp_path / "s"), "--stt-model", str(tmp_path))
    assert answer.returncode == 1
    assert "model.bin" in answer.stderr
    assert "Traceback" not in answer.stderr


def test_a_truncated_recogniser_is_named(tmp_path: Path) -> None:
    for name in ("config.json", "model.bin", "tokenizer.json", "vocabulary.txt"):
        (tmp_path / name).write_bytes(b"{}")
    answer = run("--socket", str(tmp_path / "s"), "--stt-model", str(tmp_path))
    assert answer.returncode == 1
    assert "can't be loaded" in answer.stderr
    assert "Traceback" not in answer.stderr


def test_a_socket_in_use_is_named(tmp_path: Path) -> None:
    path = tmp_path / "speech.sock"
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen()
        answer = run("--socket", str(path))
    assert answer.returncode == 1
    assert str(path) in answer.stderr
    assert "Traceback" not in answer.stderr


def test_a_wrong_thread_count_is_refused(tmp_path: Path) -> None:
    answer = run("--socket", str(tmp_path / "s"), "--stt-threads", "0")
    assert answer.returncode == 2
    assert "between 1 and 64" in answer.stderr
