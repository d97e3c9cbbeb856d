import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voice_agent.speech import protocol
from voice_agent.speech.protocol import PassKind, ProtocolError, pack, unpack_reply, unpack_request


@given(st.text(max_size=20), st.text(max_size=20), st.sampled_from(PassKind), st.binary(max_size=200))
def test_a_request_survives_the_wire(request_id: str, stream: str, kind: PassKind, payload: bytes) -> None:
    request = protocol.Transcribe(id=request_id, stream=stream, kind=kind, word_times=True)
    assert unpack_request(pack(request, payload)) == (request, payload)


def test_a_reply_survives_the_wire() -> None:
    words = [protocol.SpokenWord(index=0, start_ms=1.5, end_ms=9.0)]
    reply = protocol.Audio(id="a", index=3, sample_rate=22050, words=words)
    assert unpack_reply(pack(reply, b"\1\2")) == (reply, b"\1\2")


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_a_protocol_error(data: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        unpack_request(data)  # anything else it raises fails the test


def test_an_error_names_the_field_and_the_request() -> None:
    header = b'{"type": "synthesize", "id": "7", "words": []}'
    with pytest.raises(ProtocolError, match="words") as caught:
        unpack_request(struct.pack("<I", len(header)) + header)
    assert caught.value.request_id == "7"


def test_a_text_message_is_refused() -> None:
    with pytest.raises(ProtocolError, match="binary"):
        unpack_request("{}")
