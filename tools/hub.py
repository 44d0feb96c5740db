"""From what a user typed to a model folder: a local folder as it is, a hub ID fetched into day0's home.

The hub is the outside world: wall time, the user's own token, and never from within a sandbox.
"""

from __future__ import annotations

import re
from pathlib import Path

from day0.runs.errors import UserError

_PART = r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}"
HUB_ID = re.compile(rf"{_PART}/{_PART}\Z")
HUB_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,127}\Z")
PATTERNS = ["*.json", "*.safetensors", "*.model", "*.txt", "*.jinja", "*.jsonl", "*.tiktoken", "*.py"]
"""What is fetched: no pickle weights, no images. `.py` files are data here: nothing imports them without consent."""


def resolve(model: str, home: str | Path) -> Path:
    """The folder of `FOLDER`, `ORG/NAME` or `ORG/NAME@REVISION`; a hub model's folder is named by its commit.

    Raises `UserError`, one sentence: neither a folder nor an ID, unknown, gated, or the hub out of reach.
    """
    if "\0" in model or model.startswith("-") or not model.strip():
        raise UserError(f"{model!r} is neither a model folder nor an ID such as zai-org/GLM-5.2-FP8")
    folder = path_of(model)
    if folder.is_dir():
        return folder.resolve()
    name, _, revision = model.partition("@")
    if not HUB_ID.match(name) or ".." in model or (revision and not HUB_REVISION.match(revision)):
        looks = "no such folder" if "/" in model or model.startswith((".", "~")) else "no such folder and not a hub ID"
        raise UserError(f"{model!r}: {looks}; give a folder or an ID such as zai-org/GLM-5.2-FP8")
    return _fetch(name, revision, Path(home))


def path_of(model: str) -> Path:
    """What was typed, as a path that may be asked about. Raises `UserError` for one that no file system takes."""
    try:
        path = Path(model).expanduser()
        path.exists()
    except (OSError, RuntimeError, ValueError) as error:  # too long, forbidden, the home of nobody
        why = getattr(error, "strerror", None) or str(error)
        raise UserError(f"{model[:80]!r} is no folder: {why[:1].lower()}{why[1:].rstrip('.')}") from None
    return path


def _fetch(name: str, revision: str, home: Path) -> Path:
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import (
        GatedRepoError,
        HFValidationError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    cache = home / "models" / "hub"
    try:
        try:
            info = HfApi().model_info(name, revision=revision or None, timeout=20)
            commit = info.sha or revision
        except (RepositoryNotFoundError, RevisionNotFoundError, GatedRepoError, HFValidationError):
            raise
        except Exception:  # the client raises its HTTP library's errors as they are, and has changed that library
            # out of reach: what was fetched before still serves, but only if the revision is the same
            commit = Path(
                snapshot_download(name, revision=revision or None, cache_dir=cache, local_files_only=True)
            ).name
        folder = snapshot_download(name, revision=commit, cache_dir=cache, allow_patterns=PATTERNS)
    except GatedRepoError:
        raise UserError(f"{name} is gated: accept its licence on the hub and set HF_TOKEN") from None
    except RevisionNotFoundError:
        raise UserError(f"{name} has no revision {revision!r}") from None
    except (RepositoryNotFoundError, HFValidationError):
        raise UserError(f"the hub has no model {name!r}, or your token may not see it") from None
    except Exception:
        raise UserError(f"the hub can't be reached and {name!r} was not fetched before; give a model folder") from None
    return Path(folder)
