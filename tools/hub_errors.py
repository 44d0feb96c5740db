"""What the hub's client raises, in day0's own words: one sentence each."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from day0.runs.errors import DiskFull, UserError


class Unreachable(UserError):
    """The hub gives no answer now."""


@contextmanager
def told(name: str, revision: str, *, fetching: bool = False) -> Iterator[None]:
    """What the hub's client raises, as one sentence. Raises `UserError`, `Unreachable`, `DiskFull`."""
    from huggingface_hub.errors import (
        DisabledRepoError,
        GatedRepoError,
        HFValidationError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    try:
        yield
    except (UserError, DiskFull):
        raise
    except GatedRepoError:
        raise UserError(f"{name} is gated: accept its licence on the hub and set HF_TOKEN") from None
    except DisabledRepoError:
        raise UserError(f"{name} is disabled on the hub: its owner or the hub withdrew it") from None
    except RevisionNotFoundError:
        raise UserError(f"{name} has no revision {revision!r}") from None
    except (RepositoryNotFoundError, HFValidationError):
        raise UserError(f"the hub has no model {name!r}, or your token may not see it") from None
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise DiskFull(f"there is no room for {name}: {error.strerror}") from None
        raise Unreachable(_broke(name, fetching)) from None
    except Exception:  # the client raises its HTTP library's errors as they are, and has changed that library
        raise Unreachable(_broke(name, fetching)) from None


def _broke(name: str, fetching: bool) -> str:
    if fetching:
        return f"the hub broke off while {name} was fetched: run again to go on, whole files are kept"
    return f"the hub can't be reached and {name!r} was not fetched before; give a model folder"
