"""From what a user typed to a geometry: a folder with config.json, a name of the shipped table, or a hub ID.

Of a hub model only `config.json` is fetched: a forecast needs no weights.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from day0.runs.engine_facts import ModelFacts
from day0.runs.errors import UserError
from day0.runs.geometry import Geometry, Precision
from day0.runs.values import Frozen
from day0.tools.forecast.models import geometry
from day0.tools.forecast.names import Names, UnknownModel
from day0.tools.forecast.of_facts import precision_of
from day0.tools.hub import HUB_ID, HUB_REVISION, path_of
from day0.tools.survey import survey


class Source(Frozen):
    """A model as the forecast sees it."""

    model: str
    geometry: Geometry
    family: str
    precisions: tuple[Precision, ...]
    facts: ModelFacts | None = None
    architecture: str = ""
    found: str


def find(model: str) -> Source:
    """The model behind a folder, a known name or a hub ID. Raises UserError, one sentence."""
    if not model.strip() or "\0" in model:
        raise UserError(f"{model!r} is neither a model folder nor an ID such as zai-org/GLM-5.2-FP8")
    folder = path_of(model)
    if folder.is_dir():
        return _from_folder(model, folder, "the folder's config.json")
    if folder.exists():
        raise UserError(f"{model} is a file; give the folder of a checkpoint or its ID on the hub")
    names = Names()
    try:
        known, family = names.find(model)
    except UnknownModel:
        return _from_hub(model)
    return Source(model=model, geometry=known, family=family, precisions=_named(model, known.native),
                  architecture=names.architecture(model), found="the shipped table")  # fmt: skip


def _from_folder(model: str, folder: Path, found: str) -> Source:
    facts = survey(folder, model=model)
    config: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    shape = geometry(model, {**config, "num_hidden_layers": facts.layers})
    return Source(
        model=model, geometry=shape, family=model, precisions=(precision_of(facts),), facts=facts, found=found
    )


def _from_hub(model: str) -> Source:
    name, _, revision = model.partition("@")
    if not HUB_ID.match(name) or ".." in model or (revision and not HUB_REVISION.match(revision)):
        raise UserError(f"{model!r} is no folder, no known model and no hub ID; give an ID such as zai-org/GLM-5.2-FP8")
    found = _from_folder(model, _fetch(name, revision or None), "the hub's config.json")
    if found.facts is None:
        return found
    # only config.json was fetched: what the survey says about absent files means nothing
    return found.model_copy(update={"facts": found.facts.model_copy(update={"warnings": ()})})


def _fetch(name: str, revision: str | None) -> Path:
    """The folder that holds the model's config.json, and nothing else that is new."""
    from huggingface_hub import HfApi, hf_hub_download
    from huggingface_hub.errors import (
        GatedRepoError,
        HFValidationError,
        RemoteEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    try:
        commit = HfApi().model_info(name, revision=revision, timeout=20).sha  # fails at once where the download retries
        return Path(hf_hub_download(name, "config.json", revision=commit, etag_timeout=15)).parent
    except GatedRepoError:
        raise UserError(f"{name} is gated: accept its licence on the hub and set HF_TOKEN") from None
    except RevisionNotFoundError:
        raise UserError(f"{name} has no revision {revision!r}") from None
    except (RepositoryNotFoundError, HFValidationError):
        raise UserError(f"the hub has no model {name!r}, or your token may not see it") from None
    except RemoteEntryNotFoundError:
        raise UserError(f"{name} has no config.json, so it is not a model that day0 can serve") from None
    except Exception:  # the client raises its HTTP library's errors as they are, and has changed that library
        raise UserError(f"the hub can't be reached and {name!r} is not in the shipped table; give a folder") from None


def _named(model: str, native: Precision | None) -> tuple[Precision, ...]:
    """The precision that an ID names, else all that are published for large models."""
    named = re.search(r"(?:MX|NV)FP4|FP4|FP8|INT4", model, re.IGNORECASE)
    if named:
        return (_precision(named[0]),)
    return ("bf16", "fp8", "fp4") if native not in ("fp4", "int4") else (native, "fp4") if native != "fp4" else ("fp4",)


def _precision(text: str) -> Precision:
    low = text.lower()
    return "fp8" if low == "fp8" else "int4" if low == "int4" else "fp4"
