"""Settings are checked at start, and a wrong one names itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from voice_agent.config import ConfigurationError, load_settings


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TOKEN", "HOST", "PORT", "LLM_URL", "LLM_MODEL", "LLM_API_KEY", "ICE_SERVERS", "MODEL"):
        monkeypatch.delenv(f"VOICE_AGENT_{name}", raising=False)


def test_the_defaults_stay_on_this_machine() -> None:
    settings = load_settings()
    assert settings.on_loopback
    assert settings.ice_servers == []


def test_beyond_loopback_a_token_is_required(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match="VOICE_AGENT_TOKEN"):
        load_settings(host="0.0.0.0")
    monkeypatch.setenv("VOICE_AGENT_TOKEN", "0123456789abcdef")
    assert load_settings(host="0.0.0.0").token is not None


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"llm_url": "http://127.0.0.1:1/v1"}, "--llm-model"),
        ({"llm_url": "127.0.0.1:1/v1", "llm_model": "m"}, "http://"),
        ({"llm_url": "http://h/v1", "llm_model": "m", "model": Path("x")}, "give one of them"),
        ({"port": 99999}, "port"),
        ({"today": "yesterday"}, "today"),
        ({"ice_servers": "stun:a.example,banana"}, "'banana' is none"),
    ],
)
def test_a_wrong_value_names_itself(given: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        load_settings(**given)


def test_options_win_over_the_environment_and_lists_are_comma_separated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VOICE_AGENT_PORT", "9000")
    monkeypatch.setenv("VOICE_AGENT_ICE_SERVERS", "stun:a.example, turn:b.example")
    assert load_settings().port == 9000
    assert load_settings(port=9001).port == 9001
    assert load_settings().ice_servers == ["stun:a.example", "turn:b.example"]


def test_secrets_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VOICE_AGENT_LLM_API_KEY", "sk-very-secret-key")
    assert "very-secret" not in repr(load_settings())
