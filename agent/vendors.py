"""The vendor's endpoint of a run: named when the run is asked for, its address and key from the settings."""

from __future__ import annotations

from day0.agent.settings import Settings
from day0.runs.errors import UserError
from day0.runs.schema import Run
from day0.tools.vendor import Vendor

OPTION = "reference"


def named(settings: Settings, model: str) -> str:
    """What the reference is called in a request; empty: none is set."""
    found = _made(settings, model)
    return "" if found is None else f"{found.words}, model {found.model}"


def of(run: Run, settings: Settings) -> Vendor | None:
    """The endpoint that the run was asked with. Raises `UserError` where the settings name another by now."""
    asked = str(run.request.options.get(OPTION) or "")
    if not asked:
        return None
    found = _made(settings, str(run.request.options.get("asked_for") or run.request.model))
    if found is None or f"{found.words}, model {found.model}" != asked:
        raise UserError(
            f"run {run.id} is compared with {asked}, and the settings do not name that one: set "
            "DAY0_REFERENCE_BASE_URL and DAY0_REFERENCE_MODEL as they were"
        )
    return found


def _made(settings: Settings, model: str) -> Vendor | None:
    if settings.reference_base_url is None:
        return None
    key = settings.reference_api_key
    secret = "" if key is None else key.get_secret_value()
    return Vendor(settings.reference_base_url, settings.reference_model or model, secret)
