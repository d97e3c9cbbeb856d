"""What `voice-agent serve` can be told: options of the command line, or VOICE_AGENT_* in the environment."""

from __future__ import annotations

import datetime as dt
import ipaddress
import re
from pathlib import Path
from typing import Annotated, Literal

from platformdirs import user_data_path
from pydantic import Field, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

DATA = user_data_path("voice-agent")
_ICE_SERVER = re.compile(r"(stun|turn)s?:[^\s:/?]+(:\d+)?(\?transport=(udp|tcp))?")


class ConfigurationError(ValueError):
    """A setting is wrong; the message says which and what to do."""


class Settings(BaseSettings):
    """Settings of the calls process. Secrets come from the environment only."""

    model_config = SettingsConfigDict(env_prefix="VOICE_AGENT_", extra="ignore")

    host: str = "127.0.0.1"
    """Address to listen on. Beyond loopback a token is required."""
    port: int = Field(default=8080, ge=0, le=65535)
    """Port of the page, the API and the signalling; 0 for any free one."""
    token: SecretStr | None = None
    """Bearer token of the API (VOICE_AGENT_TOKEN)."""

    model: Path | None = None
    """Model folder that our engine serves; None for the embedded one."""
    dtype: Literal["fp32", "bf16", "fp16", "int8"] | None = None
    """Number format of the engine's weights; None for int8 with the embedded model, else the engine's own default."""
    llm_url: str | None = None
    """Base URL of another OpenAI-compatible endpoint, up to and including /v1; our engine isn't started then."""
    llm_model: str | None = None
    """Name of the model at ``llm_url``."""
    llm_api_key: SecretStr | None = None
    """Its key (VOICE_AGENT_LLM_API_KEY)."""
    llm_first_token_s: float = Field(default=2.0, gt=0, le=30)
    """Time until a reply's first token after which the agent apologises (s)."""

    database: Path = DATA / "bookings.sqlite"
    """The restaurant's bookings."""
    record_dir: Path = DATA / "records"
    """Folder of the calls' records."""
    today: dt.date | None = None
    """The date on which calls take place, for tests and demonstrations; None for the real one."""

    max_calls: int = Field(default=4, ge=1, le=200)
    """Calls at a time; further ones are refused."""
    max_call_s: float = Field(default=900.0, gt=0)
    """Longest time of a call (s)."""
    ice_servers: Annotated[list[str], NoDecode] = []
    """STUN or TURN URLs, comma-separated. None by default."""

    @model_validator(mode="before")
    @classmethod
    def _split_ice_servers(cls, values: object) -> object:
        if isinstance(values, dict) and isinstance(values.get("ice_servers"), str):
            values["ice_servers"] = [url.strip() for url in values["ice_servers"].split(",") if url.strip()]
        return values

    @model_validator(mode="after")
    def _check(self) -> Settings:
        if (self.llm_url is None) != (self.llm_model is None):
            raise ValueError("--llm-url and --llm-model go together: give both, or neither for our own engine")
        if self.llm_url is not None and not self.llm_url.startswith(("http://", "https://")):
            raise ValueError(f"--llm-url must begin with http:// or https://, not {self.llm_url!r}")
        if self.llm_url is not None and self.model is not None:
            raise ValueError("--model is served by our engine, --llm-url is another one: give one of them")
        if self.model is not None and not (self.model / "config.json").is_file():
            raise ValueError(f"--model {self.model} is no model folder: it has no config.json")
        for url in self.ice_servers:
            if not _ICE_SERVER.fullmatch(url):
                raise ValueError(f"--ice-servers: {url!r} is none; one is stun:HOST, stun:HOST:PORT or turn:HOST")
        if not self.on_loopback and self.token is None:
            raise ValueError(
                f"listening on {self.host} lets others call: set VOICE_AGENT_TOKEN to a secret of your choice "
                "(callers send it as a bearer token), or listen on 127.0.0.1"
            )
        if self.token is not None and len(self.token.get_secret_value()) < 16:
            raise ValueError("VOICE_AGENT_TOKEN is shorter than 16 characters: choose a longer one")
        return self

    @property
    def on_loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def load_settings(**overrides: object) -> Settings:
    """Settings from the environment, ``overrides`` (None means not given) first.

    Raises:
        ConfigurationError: a value is wrong.
    """
    given = {name: value for name, value in overrides.items() if value is not None}
    try:
        return Settings(**given)  # type: ignore[arg-type]  # pydantic checks the values
    except ValidationError as error:
        problems = []
        for problem in error.errors():
            name = ".".join(str(part) for part in problem["loc"])
            text = problem["msg"].removeprefix("Value error, ")
            problems.append(f"{name}: {text}" if name else text)
        raise ConfigurationError("; ".join(problems)) from error
