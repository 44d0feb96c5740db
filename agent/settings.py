"""Settings: flag > `DAY0_*` in the environment > `$DAY0_HOME/config.toml` > default."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from day0.runs.errors import UserError
from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource


def home_folder() -> Path:
    """`$DAY0_HOME`, or the platform's user data folder. Data never lies in the source tree."""
    named = os.environ.get("DAY0_HOME")
    if named:
        return Path(named).expanduser().absolute()
    from platformdirs import user_data_path

    return user_data_path("day0")


class Settings(BaseSettings):
    """What a user may set once instead of on every command line."""

    model_config = SettingsConfigDict(env_prefix="DAY0_", extra="forbid", frozen=True)

    home: Path = Field(default_factory=home_folder)
    database_url: SecretStr | None = Field(default=None, description="default: SQLite in the home folder")
    llm_base_url: str | None = None
    llm_model: str | None = None
    llm_api_key: SecretStr | None = None
    llm_max_calls: int = Field(default=1000, gt=0, description="LLM calls of one run, over all its processes")
    llm_budget_usd: float | None = Field(default=None, gt=0, description="needs the two prices")
    llm_max_tokens: int = Field(default=50_000_000, gt=0, description="prompt and answer tokens of one run")
    llm_prices: dict[str, tuple[float, float]] = Field(
        default_factory=dict, description="model -> USD per million prompt and written tokens; the two below beat it"
    )
    llm_usd_in: float = Field(default=0.0, ge=0, description="USD per million prompt tokens; 0 = unknown")
    llm_usd_out: float = Field(default=0.0, ge=0, description="USD per million written tokens; 0 = unknown")
    forge_to: str | None = Field(default=None, description="where `day0 publish` sends: owner/name, a bare repository")
    forge_fork: str | None = Field(default=None, description="owner/name to push to; default: the same repository")
    forge_base: str = Field(default="main", description="branch that pull requests ask to change")
    forge_api: str = Field(default="https://api.github.com", description="REST API of the forge")
    upstream_token: SecretStr | None = Field(default=None, description="read-only, for searches of GitHub; optional")
    forge_author: str | None = Field(default=None, description="`Name <mail>` of the sign-off; default: git's own")
    model_folders: tuple[Path, ...] = Field(
        default=(),
        description="folders besides day0's own that containers may be shown, read-only: models, programs of evals",
    )
    reference_base_url: str | None = Field(default=None, description="the vendor's endpoint of the model")
    reference_model: str | None = Field(default=None, description="its name there; default: the model asked for")
    reference_api_key: SecretStr | None = None
    target: str = "cpu"
    policy: str = "auto"
    budget_hours: float = Field(default=24.0, gt=0)

    @field_validator("llm_base_url", "reference_base_url")
    @classmethod
    def _address(cls, value: str | None) -> str | None:
        """An http(s) address with a host; empty = none. The value is not repeated: it may hold a password."""
        value = (value or "").strip()
        if not value:
            return None
        try:
            parts = urlsplit(value)
            sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            sound = False
        if not sound or any(c.isspace() for c in value):
            raise ValueError("it must be an http:// or https:// address with a host, such as https://host/v1")
        return value

    @model_validator(mode="after")
    def _priced(self) -> Settings:
        """A budget without prices would never be spent."""
        if self.llm_budget_usd is not None and not all(self.llm_price):
            raise ValueError(
                "llm_budget_usd caps nothing without llm_usd_in and llm_usd_out, or llm_prices, USD per million tokens"
            )
        return self

    @property
    def llm_price(self) -> tuple[float, float]:
        """USD per million prompt and written tokens of the configured model; 0 = unknown."""
        known = self.llm_prices.get(self.llm_model or "", (0.0, 0.0))
        return self.llm_usd_in or known[0], self.llm_usd_out or known[1]

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flags, then the environment, then the file; nothing is read from the current folder."""
        toml = TomlConfigSettingsSource(settings_cls, toml_file=home_folder() / "config.toml")
        return init_settings, env_settings, toml

    @property
    def database(self) -> str:
        """The ledger's URL; it may hold a password, so it is never printed."""
        if self.database_url is not None:
            return self.database_url.get_secret_value()
        return f"sqlite:///{self.home / 'day0.sqlite'}"

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values that must never be shown or stored."""
        held = (self.llm_api_key, self.database_url, self.upstream_token, self.reference_api_key)
        return tuple(s.get_secret_value() for s in held if s is not None)


def load(**flags: Any) -> Settings:
    """Settings with the flags that were given (None = not given). Raises `UserError` naming the wrong key."""
    given = {key: value for key, value in flags.items() if value is not None}
    try:
        return Settings(**given)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "settings"
        why, file = first["msg"].removeprefix("Value error, "), home_folder() / "config.toml"
        raise UserError(f"setting `{key}` is wrong: {why}; look in {file} and at DAY0_* variables") from None
    except ValueError as error:  # the TOML itself
        raise UserError(f"{home_folder() / 'config.toml'} can't be read: {error}") from None


def redacted(text: str) -> str:
    """The text without the values of this process' secrets, as far as they can be loaded."""
    from day0.sandboxes.redact import Redactor

    try:
        secrets = load().secrets
    except UserError:
        secrets = tuple(
            filter(
                None, (os.environ.get(f"DAY0_{name}") for name in ("LLM_API_KEY", "DATABASE_URL", "REFERENCE_API_KEY"))
            )
        )
    return Redactor(secrets)(text)
