"""The one exception tree.

Day0Error
├── UserError                 a person's mistake: one sentence and what to do (exit 2)
├── Infrastructure            node, disk, network, Docker: never charged to a candidate (exit 3)
│   ├── NodeLost              the node no longer answers
│   ├── DiskFull              no room left for what has to be written
│   ├── Timeout               a deadline of node time passed
│   ├── LostLease             this process no longer holds the right to write (controller lock, attempt epoch)
│   └── Conflict              a write that the ledger's rules forbid: nothing of its transaction is kept
├── CandidateFailed           the candidate's own fault, with failure class and evidence line
├── Refused                   a proposal was not admitted; costs nothing
└── Cancelled                 a person or the deadline stopped the work
"""

from __future__ import annotations


class Day0Error(Exception):
    """Root of everything day0 raises on purpose."""

    exit_code = 3


class UserError(Day0Error):
    """A person's mistake. The message is one sentence that says what to do."""

    exit_code = 2


class Infrastructure(Day0Error):
    """The machinery failed; the candidate is not to blame and its attempt may climb again."""


class NodeLost(Infrastructure):
    """The node no longer answers."""


class DiskFull(Infrastructure):
    """There is no room for what has to be written; the message names the path and the size."""


class Timeout(Infrastructure):
    """A deadline, in node seconds, passed."""


class LostLease(Infrastructure):
    """This process lost the controller lock or the attempt's epoch; its writes are refused."""


class Conflict(Infrastructure):
    """A write that the ledger's rules forbid: an illegal move, a change of a finished row, a second verdict."""


class CandidateFailed(Day0Error):
    """The candidate's own fault.

    `failure` is a failure class of `day0.runs.facts.FailureClass`; `evidence` the log line that shows it; `log` the
    server's log where it never became ready (its head and tail as the spool kept them).
    """

    exit_code = 1

    def __init__(self, failure: str, evidence: str, issue: str = "unknown", log: bytes = b"") -> None:
        super().__init__(f"{failure}: {evidence}")
        self.failure, self.evidence, self.issue, self.log = failure, evidence, issue, log


class Refused(Day0Error):
    """A proposal was not admitted; `reason` goes back to the policy as a fact."""

    exit_code = 1

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Cancelled(Day0Error):
    """A person, a signal or the deadline stopped the work."""

    exit_code = 1
