import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voice_agent.vad.activity import GateLogic, GateOptions, TriggerLogic, TriggerOptions
from voice_agent.vad.events import VadEvent, VadEventType

FRAME_MS = 10.0
GATE_MS = 32.0


def trigger(pattern: str, options: TriggerOptions | None = None) -> list[VadEvent]:
    """Events for a pattern of 10 ms frames, "#" speech and "." silence."""
    logic = TriggerLogic(options)
    return [
        event
        for index, frame in enumerate(pattern)
        for event in logic.push(frame == "#", index * FRAME_MS, (index + 1) * FRAME_MS)
    ]


def gate(probabilities: list[float], options: GateOptions | None = None) -> list[VadEvent]:
    logic = GateLogic(options)
    return [
        event
        for index, probability in enumerate(probabilities)
        for event in logic.push(probability, index * GATE_MS, (index + 1) * GATE_MS)
    ]


def test_trigger_reports_the_onset_and_the_end_in_the_audio_not_when_it_knew() -> None:
    start, end = trigger("...#####....")
    assert (start.type, start.at_ms, start.detected_ms) == (VadEventType.TRIGGER_START, 30.0, 50.0)
    assert (end.type, end.at_ms, end.detected_ms) == (VadEventType.TRIGGER_END, 80.0, 110.0)


def test_trigger_ignores_a_click_and_a_gap_shorter_than_its_hang_over() -> None:
    assert trigger("...#......") == []
    assert [event.type for event in trigger("####..####")] == [VadEventType.TRIGGER_START]


def test_gate_holds_through_a_short_pause_and_ends_after_a_long_one() -> None:
    speech, silence = [0.9] * 10, [0.05]
    events = gate([*speech, *silence * 5, *speech, *silence * 10], GateOptions(hold_ms=250))
    assert [event.type for event in events] == [VadEventType.SPEECH_START, VadEventType.SPEECH_END]
    assert events[1].at_ms == 25 * GATE_MS
    assert events[1].detected_ms - events[1].at_ms >= 250


def test_gate_hold_decides_whether_a_pause_splits() -> None:
    frames = [*[0.9] * 10, *[0.0] * 5, *[0.9] * 10, *[0.0] * 20]
    assert len(gate(frames, GateOptions(hold_ms=100))) == 4
    assert len(gate(frames, GateOptions(hold_ms=400))) == 2


def test_gate_keeps_going_between_release_and_threshold() -> None:
    assert [e.type for e in gate([*[0.9] * 4, *[0.42] * 40])] == [VadEventType.SPEECH_START]
    assert gate([0.42] * 40) == []


def test_gate_refuses_what_is_no_probability() -> None:
    with pytest.raises(ValueError, match=r"1\.5"):
        gate([1.5])
    with pytest.raises(ValueError, match="nan"):
        gate([float("nan")])


def test_options_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="release"):
        GateOptions(threshold=0.3, release=0.5)
    with pytest.raises(ValueError, match="mode"):
        TriggerOptions(mode=4)


@given(st.lists(st.floats(0, 1), max_size=200))
def test_gate_events_alternate_and_never_lie_in_the_future(probabilities: list[float]) -> None:
    events = gate(probabilities)
    kinds = [event.type for event in events]
    assert kinds == [VadEventType.SPEECH_START, VadEventType.SPEECH_END] * (len(kinds) // 2) + kinds[:1] * (
        len(kinds) % 2
    )
    assert all(event.at_ms < event.detected_ms for event in events)
    assert all(a.at_ms < b.at_ms for a, b in itertools.pairwise(events))


@given(st.text(alphabet="#.", max_size=300))
def test_trigger_events_alternate_and_never_lie_in_the_future(pattern: str) -> None:
    events = trigger(pattern)
    assert all(a.type != b.type and a.at_ms < b.at_ms for a, b in itertools.pairwise(events))
    assert all(event.at_ms < event.detected_ms for event in events)
