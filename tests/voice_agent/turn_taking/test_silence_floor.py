"""End of turn, speculation and barge-in of the first policy, on scripted timelines."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.voice_agent.turn_taking.script import Script
from voice_agent.turn_taking import (
    AgentAudioStarted,
    AgentFinished,
    AgentHeard,
    AgentReady,
    Commit,
    DropSpeculation,
    Duck,
    Event,
    Final,
    Partial,
    PauseAgent,
    Preflight,
    Reopen,
    ResumeAgent,
    SilenceFloor,
    SilenceFloorConfig,
    Speculate,
    SpeechEnd,
    SpeechStart,
    StopAgent,
    TriggerEnd,
    TriggerStart,
)

TABLE = "we will be four people"


def utterance(start: float, end: float, text: str, *, final: bool = True) -> list[Event]:
    """Speech from ``start`` to ``end`` as voice activity and recogniser report it, with their usual delays."""
    events: list[Event] = [
        SpeechStart(start + 0.08),
        TriggerEnd(end + 0.06, audio_end=end),
        SpeechEnd(end + 0.29, audio_end=end),
    ]
    if text:
        events.append(Preflight(end + 0.24, text))
    if final:
        events.append(Final(end + 0.40, text))
    return events


def speaking_agent() -> Script:
    """A script whose agent has been speaking since 1.0 s in a reply to a first turn."""
    script = Script()
    script.run(*utterance(0.1, 0.4, "we are four", final=False), AgentAudioStarted(1.0), until=1.02)
    assert script.kinds() == ["Speculate", "Commit"]
    script.log.clear()
    return script


# End of turn


def test_a_turn_is_prepared_on_its_preflight_and_committed_after_the_hold() -> None:
    script = Script()
    script.run(*utterance(0.2, 2.0, TABLE), until=4.0)
    (prepared, speculation), (committed, commit) = script.log
    assert speculation == Speculate(TABLE)
    assert commit == Commit(TABLE)
    assert prepared == pytest.approx(2.24)
    assert committed == pytest.approx(2.0 + SilenceFloorConfig().hold_s, abs=0.021)


@pytest.mark.parametrize(
    ("text", "hold"),
    [
        ("could I book a table, please?", "hold_closed_s"),
        ("are you open on Sunday?", "hold_closed_s"),
        ("I would like to come on", "hold_unfinished_s"),
        ("we are four people so", "hold_unfinished_s"),
        ("my number is five five five", "hold_unfinished_s"),
        ("my number is 555-01", "hold_unfinished_s"),
        ("my number is five five five oh one nine nine", "hold_s"),
        ("at 7 30", "hold_open_s"),
        ("we will be four", "hold_s"),
    ],
)
def test_the_hold_follows_the_wording(text: str, hold: str) -> None:
    config = SilenceFloorConfig()
    assert config.hold_for(text) == getattr(config, hold)


def test_an_unfinished_phrase_is_waited_for_but_answered_in_the_end() -> None:
    script = Script()
    script.run(*utterance(0.2, 2.0, "I wanted to ask so"), until=5.0)
    ((at, commit),) = script.all(Commit)
    assert commit == Commit("I wanted to ask so")
    assert at - 2.0 <= 3.0


def test_a_pause_inside_a_sentence_is_one_turn() -> None:
    script = Script()
    script.run(
        SpeechStart(0.3),
        TriggerEnd(1.06, audio_end=1.0),
        Preflight(1.24, "I'd like a table for"),
        SpeechEnd(1.3, audio_end=1.0),
        Final(1.4, "I'd like a table for"),
        SpeechStart(1.88),
        Partial(2.2, "four people"),
        TriggerEnd(2.56, audio_end=2.5),
        Preflight(2.74, "four people tomorrow"),
        SpeechEnd(2.8, audio_end=2.5),
        Final(2.9, "four people tomorrow"),
        until=4.0,
    )
    assert [decision for _, decision in script.all(Commit)] == [Commit("I'd like a table for four people tomorrow")]
    assert "DropSpeculation" in script.kinds()


def test_a_reply_is_prepared_while_the_caller_still_speaks_where_the_words_sound_like_all() -> None:
    """Each whole sentence replaces the one before; the transcript of the dip, if it says the same, changes nothing."""
    script = Script()
    script.run(
        SpeechStart(0.3),
        Partial(0.8, "do you have"),
        Partial(1.2, "Do you have parking?"),
        Partial(1.5, "do you have parking, and is it"),
        Partial(1.9, "Do you have parking, and is it free?"),
        TriggerEnd(2.06, audio_end=2.0),
        Preflight(2.24, "do you have parking and is it free?"),
        SpeechEnd(2.3, audio_end=2.0),
        until=4.0,
    )
    assert [(round(at, 1), decision) for at, decision in script.log] == [
        (1.2, Speculate("Do you have parking?")),
        (1.5, DropSpeculation()),
        (1.9, Speculate("Do you have parking, and is it free?")),
        (2.3, Commit("do you have parking and is it free?")),
    ]


def test_a_short_dip_within_the_gate_keeps_the_turn_open() -> None:
    script = Script()
    script.run(
        SpeechStart(0.3),
        TriggerEnd(1.06, audio_end=1.0),
        TriggerStart(1.2),
        Preflight(1.24, "I'd like a table"),
        TriggerEnd(2.06, audio_end=2.0),
        Preflight(2.24, TABLE),
        SpeechEnd(2.3, audio_end=2.0),
        until=4.0,
    )
    assert [decision for _, decision in script.log] == [Speculate(TABLE), Commit(TABLE)]


def test_a_noise_that_only_the_trigger_hears_holds_the_turn_open_for_a_moment_only() -> None:
    script = Script()
    script.run(*utterance(0.2, 2.0, TABLE), TriggerStart(2.32), until=4.0)
    ((at, commit),) = script.all(Commit)
    assert commit == Commit(TABLE)
    assert at == pytest.approx(2.32 + SilenceFloorConfig().trigger_patience_s, abs=0.021)


def test_without_the_transcript_of_the_last_words_nothing_is_committed_until_patience_ends() -> None:
    script = Script()
    script.run(
        SpeechStart(0.3),
        Partial(1.0, "I'd like a table"),
        TriggerEnd(2.06, audio_end=2.0),
        SpeechEnd(2.3, audio_end=2.0),
        until=5.0,
    )
    ((at, commit),) = script.all(Commit)
    assert commit == Commit("I'd like a table")
    assert at == pytest.approx(2.0 + SilenceFloorConfig().transcript_patience_s, abs=0.021)


def test_a_noise_without_words_is_no_turn() -> None:
    script = Script()
    script.run(*utterance(0.2, 0.6, ""), until=6.0)
    assert script.log == []


def test_a_line_that_never_falls_silent_is_answered_after_the_longest_turn() -> None:
    script = Script(SilenceFloor(SilenceFloorConfig(max_turn_s=5.0)))
    script.run(SpeechStart(0.1), Partial(2.0, "a table please"), until=6.0)
    ((at, commit),) = script.all(Commit)
    assert commit == Commit("a table please")
    assert at == pytest.approx(5.1, abs=0.03)


def test_the_final_of_a_committed_turn_does_not_answer_it_again() -> None:
    script = Script()
    late_final = Final(2.9, "We'll be 4 people.")
    script.run(*utterance(0.2, 2.0, TABLE, final=False), AgentAudioStarted(2.7), late_final, until=5.0)
    assert script.kinds() == ["Speculate", "Commit"]


def test_ten_preflights_of_one_turn_are_one_reply() -> None:
    script = Script()
    said = TABLE.split()
    events: list[Event] = [SpeechStart(0.1)]
    for n in range(10):
        end = 0.6 + 0.5 * n
        text = " ".join(said[: min(n + 1, len(said))])
        events += [TriggerEnd(end + 0.06, audio_end=end), Preflight(end + 0.15, text), TriggerStart(end + 0.2)]
    events = [*events[:-1], SpeechEnd(5.5, audio_end=5.1)]
    script.run(*events, until=8.0)
    assert script.kinds().count("Commit") == 1


# Overlap


def test_case_1_a_voiced_burst_without_words_lets_the_agent_go_on() -> None:
    script = speaking_agent()
    script.run(
        SpeechStart(2.08), TriggerEnd(2.36, audio_end=2.3), SpeechEnd(2.59, audio_end=2.3), Final(2.62, ""), until=5.0
    )
    assert script.kinds() == ["Duck", "PauseAgent", "ResumeAgent"]
    resumed = script.all(ResumeAgent)[0][0]
    assert resumed - 2.3 <= 0.4


def test_case_2_a_cough_after_the_turn_does_not_cost_the_reply() -> None:
    script = Script()
    script.run(
        *utterance(0.2, 2.0, TABLE, final=False),
        TriggerStart(2.12),
        TriggerEnd(2.26, audio_end=2.2),
        Preflight(2.45, TABLE),
        until=4.0,
    )
    assert [decision for _, decision in script.all(Commit)] == [Commit(TABLE)]


def test_case_2_a_cough_between_commit_and_reply_only_delays_it() -> None:
    script = Script()
    script.run(
        *utterance(0.2, 2.0, TABLE, final=False),
        SpeechStart(2.52),
        TriggerEnd(2.6, audio_end=2.58),
        SpeechEnd(2.8, audio_end=2.58),
        Final(2.9, TABLE),
        until=4.0,
    )
    assert script.kinds() == ["Speculate", "Commit", "PauseAgent", "ResumeAgent"]


BACKCHANNELS = ["mhm", "Mm-hmm.", "uh-huh", "yeah", "okay", "right", "I see", "thank you", "Okay, great.", "got it"]


@pytest.mark.parametrize("said", BACKCHANNELS)
def test_case_3_backchannels_are_not_turns(said: str) -> None:
    script = speaking_agent()
    script.run(*utterance(2.0, 2.45, said), until=6.0)
    assert not script.all(StopAgent)
    assert not script.all(Commit)
    assert script.kinds()[-1] == "ResumeAgent"


def test_a_long_sound_is_judged_by_its_transcript_however_late_that_comes() -> None:
    script = speaking_agent()
    late = utterance(2.0, 2.9, "", final=False)
    script.run(*late, Final(3.9, "in the evening"), until=6.0)
    assert script.kinds() == ["Duck", "PauseAgent", "StopAgent", "Speculate", "Commit"]


def test_a_long_sound_without_words_lets_the_agent_go_on_when_the_recogniser_is_done() -> None:
    script = speaking_agent()
    script.run(*utterance(2.0, 2.9, ""), until=6.0)
    assert script.kinds() == ["Duck", "PauseAgent", "ResumeAgent"]
    assert script.all(ResumeAgent)[0][0] - 2.9 <= 0.5


def test_case_7_when_both_begin_at_once_the_agent_yields_at_once() -> None:
    script = speaking_agent()
    script.run(SpeechStart(1.1), Partial(1.7, "actually wait"), until=2.0)
    assert script.log[0] == (1.1, PauseAgent())
    assert script.all(StopAgent)


@pytest.mark.parametrize("said", ["yes", "Yeah.", "okay", "that's right", "sure"])
def test_case_12_a_yes_to_a_question_is_a_turn(said: str) -> None:
    script = speaking_agent()
    script.run(AgentHeard(2.05, "So a table for four. Is that right?"), *utterance(2.0, 2.4, said), until=5.0)
    assert [decision for _, decision in script.all(Commit)] == [Commit(said)]
    assert script.all(StopAgent)


def test_case_12_a_yes_after_the_agent_has_finished_is_a_turn() -> None:
    script = speaking_agent()
    script.run(AgentFinished(1.9), *utterance(2.0, 2.4, "yes"), until=5.0)
    assert [decision for _, decision in script.all(Commit)] == [Commit("yes")]


def test_case_13_stop_silences_fast_and_claims_the_turn() -> None:
    script = speaking_agent()
    script.run(*utterance(2.0, 2.4, "stop"), until=5.0)
    assert script.all(Duck)[0][0] - 2.0 <= 0.2
    assert script.all(PauseAgent)[0][0] - 2.0 <= 0.45
    assert [decision for _, decision in script.all(Commit)] == [Commit("stop")]


def test_a_word_that_only_the_recogniser_heard_still_stops_the_agent() -> None:
    script = speaking_agent()
    script.run(Final(2.4, "stop"), until=4.0)
    assert script.kinds() == ["StopAgent", "Speculate", "Commit"]
    assert [decision for _, decision in script.all(Commit)] == [Commit("stop")]


def test_words_over_the_greeting_are_a_turn() -> None:
    script = Script()
    script.run(AgentAudioStarted(0.2), *utterance(1.0, 2.5, TABLE), until=5.0)
    assert [decision for _, decision in script.all(Commit)] == [Commit(TABLE)]


def test_a_caller_who_goes_on_is_noticed_by_the_trigger_before_the_reply_is_heard() -> None:
    script = Script()
    commit_at = 2.0 + SilenceFloorConfig().hold_s
    goes_on = [TriggerStart(commit_at + 0.03), SpeechStart(commit_at + 0.09), Partial(commit_at + 0.7, "on Friday")]
    script.run(*utterance(0.2, 2.0, TABLE), *goes_on, until=3.3)
    assert script.kinds() == ["Speculate", "Commit", "PauseAgent", "StopAgent", "Reopen"]
    assert script.all(PauseAgent)[0][0] == pytest.approx(commit_at + 0.03)


def test_a_false_alarm_of_the_trigger_delays_the_reply_by_a_moment_only() -> None:
    script = Script()
    alarm = 2.0 + SilenceFloorConfig().hold_s + 0.05
    script.run(*utterance(0.2, 2.0, TABLE), TriggerStart(alarm), TriggerEnd(alarm + 0.05, audio_end=alarm), until=4.0)
    assert script.kinds() == ["Speculate", "Commit", "PauseAgent", "ResumeAgent"]
    paused, resumed = script.all(PauseAgent)[0][0], script.all(ResumeAgent)[0][0]
    assert resumed - paused <= SilenceFloorConfig().trigger_patience_s + 0.021


def test_case_8_without_caller_audio_nothing_is_resumed() -> None:
    script = speaking_agent()
    script.run(AgentFinished(4.0), until=8.0)
    assert script.log == []


# A caller who had only paused


def pause_within_a_turn(begins: float, *, more: str = "in the evening") -> Script:
    """A turn that is answered at 2.6 s, and ``more`` words of the caller from ``begins`` (s) on."""
    script = Script(SilenceFloor(SilenceFloorConfig(hold_open_s=0.45)))
    first = utterance(0.2, 2.0, "at half past seven.")
    script.run(*first, AgentAudioStarted(2.6), *utterance(begins, begins + 0.8, more), until=begins + 3.0)
    return script


def test_a_pause_that_was_taken_for_the_end_costs_no_word() -> None:
    script = pause_within_a_turn(2.5)
    commits = [decision for _, decision in script.all(Commit)]
    assert commits == [Commit("at half past seven."), Commit("at half past seven. in the evening")]
    kinds = script.kinds()
    assert kinds[kinds.index("StopAgent") :] == ["StopAgent", "Reopen", "Speculate", "Commit"]


def test_an_agent_that_began_in_a_pause_falls_silent_at_once_and_the_turn_goes_on() -> None:
    script = pause_within_a_turn(2.8)
    assert script.all(PauseAgent)[0][0] == pytest.approx(2.88)
    assert script.all(Commit)[-1][1] == Commit("at half past seven. in the evening")


def test_a_caller_who_heard_the_reply_begin_and_cuts_in_begins_a_turn_of_their_own() -> None:
    script = pause_within_a_turn(3.6, more="no wait")
    assert not script.all(Reopen)
    assert script.all(Commit)[-1][1] == Commit("no wait")


@pytest.mark.parametrize("more", ["please", "um", "okay", "thank you"])
def test_in_a_silent_pause_nothing_is_a_backchannel(more: str) -> None:
    script = pause_within_a_turn(2.5, more=more)
    assert script.all(Commit)[-1][1] == Commit(f"at half past seven. {more}")


def test_a_reply_that_ended_unheard_leaves_the_words_for_the_next_turn() -> None:
    script = Script()
    script.run(*utterance(0.2, 2.0, TABLE), AgentFinished(3.0), until=4.0)
    assert script.kinds() == ["Speculate", "Commit", "Reopen"]
    script.run(*utterance(5.0, 6.0, "are you there?"), until=8.0)
    assert script.all(Commit)[-1][1] == Commit(f"{TABLE} are you there?")


def put_off_answer() -> Script:
    """A turn whose answer was put off at 4.0 s by a phrase that the caller has heard."""
    script = Script()
    script.run(*utterance(0.2, 2.0, TABLE), AgentAudioStarted(2.6), AgentFinished(4.0, answered=False), until=5.0)
    assert script.kinds() == ["Speculate", "Commit", "Reopen"]
    script.log.clear()
    return script


def test_an_answer_that_was_put_off_is_given_as_soon_as_it_can_be() -> None:
    script = put_off_answer()
    script.run(until=9.0)
    assert script.log == [], "the caller was told to wait, and does"
    script.run(AgentReady(9.01), until=9.1)
    assert script.log == [(9.01, Commit(TABLE, again=True))]
    script.run(AgentAudioStarted(9.5), AgentFinished(11.0), AgentReady(11.5), until=12.0)
    assert len(script.log) == 1, "it was given"


def test_a_caller_who_says_more_while_they_wait_is_answered_on_all_of_it() -> None:
    script = put_off_answer()
    script.run(*utterance(6.0, 7.0, "are you there?"), AgentReady(6.5), AgentReady(7.1), until=9.0)
    assert [decision for _, decision in script.all(Commit)] == [Commit(f"{TABLE} are you there?")]


def test_a_sound_over_the_agent_s_excuse_is_no_reason_to_ask_again() -> None:
    script = Script()
    cough = utterance(3.0, 3.2, "", final=False)
    finished = AgentFinished(4.0, answered=False)
    script.run(*utterance(0.2, 2.0, TABLE), AgentAudioStarted(2.6), *cough, finished, until=8.0)
    assert len(script.all(Commit)) == 1
    script.run(AgentReady(8.01), until=8.1)
    assert script.all(Commit)[-1][1] == Commit(TABLE, again=True)


def test_the_question_asked_before_still_counts_when_the_turn_goes_on() -> None:
    script = Script()
    script.run(
        AgentAudioStarted(0.02), AgentHeard(0.04, "What name shall I put it under?"), AgentFinished(0.06), until=0.1
    )
    script.run(*utterance(0.2, 1.0, "Peter."), AgentAudioStarted(1.9), *utterance(2.0, 2.6, "Johnson."), until=5.0)
    (first, _), (second, commit) = script.all(Commit)
    assert first - 1.0 == pytest.approx(SilenceFloorConfig().hold_open_s, abs=0.021)
    assert commit == Commit("Peter. Johnson.")
    assert second - 2.6 == pytest.approx(SilenceFloorConfig().hold_closed_s, abs=0.021)


def test_case_24_a_claim_before_the_first_sound_drops_the_reply_and_is_answered() -> None:
    script = Script()
    more = utterance(2.45, 3.4, f"{TABLE} tomorrow evening")
    script.run(*utterance(0.2, 2.0, TABLE, final=False), *more, until=6.0)
    assert [decision for _, decision in script.all(Commit)] == [Commit(TABLE), Commit(f"{TABLE} tomorrow evening")]
    kinds = script.kinds()
    assert kinds.index("PauseAgent") < kinds.index("StopAgent")


@settings(max_examples=60, deadline=None)
@given(
    phases=st.lists(
        st.tuples(st.floats(0.0, 2.5), st.sampled_from(["stop", "mhm", "", "wait a moment", "yes"])),
        min_size=20,
        max_size=20,
    )
)
def test_case_16_after_twenty_interruptions_the_next_turn_is_answered(phases: list[tuple[float, str]]) -> None:
    script = Script()
    for offset, said in phases:
        # An agent that answers every commit 0.4 s later and speaks for 2 s, and a caller who cuts in anywhere.
        start = script.now + 0.1 + offset
        _converse(script, utterance(start, start + 0.4, said), until=start + 4.0)
    start = script.now + 0.1
    script.log.clear()
    _converse(script, utterance(start, start + 1.0, TABLE), until=start + 6.0)
    assert Commit(TABLE) in [decision for _, decision in script.log]


def _converse(script: Script, events: list[Event], until: float) -> None:
    """Runs the script with an agent that reacts to the floor's decisions as a call does."""
    events = sorted(events, key=lambda event: event.at)
    reply: float | None = getattr(script, "reply", None)  # when the agent becomes audible, or ends if it is audible
    audible: bool = getattr(script, "audible", False)
    while script.now < until - 1e-9:
        now = round(script.now + 0.02, 6)
        due = [event for event in events if event.at <= now]
        events = events[len(due) :]
        agent: list[Event] = []
        if reply is not None and reply <= now:
            agent = [AgentFinished(now)] if audible else [AgentAudioStarted(now)]
            reply, audible = (None, False) if audible else (now + 2.0, True)
        before = len(script.log)
        script.run(*due, *agent, until=now)
        for _, decision in script.log[before:]:
            if isinstance(decision, Commit):
                reply, audible = now + 0.4, False
            elif isinstance(decision, StopAgent):
                reply, audible = None, False
    script.reply, script.audible = reply, audible  # type: ignore[attr-defined]
