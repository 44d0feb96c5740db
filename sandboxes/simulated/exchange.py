"""One HTTP request on its way through virtual time."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from day0.sandboxes.simulated.kernel import Event, Kernel
from day0.sandboxes.simulated.steps import Answer, Body, Die, Drop, Head, Wait


class Exchange:
    """A handler being run, and what of its response has arrived. `watch` is called after each change."""

    def __init__(
        self,
        kernel: Kernel,
        answers: Iterator[Answer],
        *,
        die: Callable[[int], None],
        ended: Callable[[Exchange], None],
    ) -> None:
        self.head: Head | None = None
        self.chunks: list[bytes] = []
        self.dropped = self.complete = False
        self.watch: Callable[[], None] = lambda: None
        self._kernel, self._answers, self._die, self._ended = kernel, answers, die, ended
        self._event: Event | None = kernel.after(0.0, self._go)

    @property
    def over(self) -> bool:
        """Nothing more will arrive."""
        return self.dropped or self.complete

    def drop(self) -> None:
        """The connection is closed before the response was complete, by either side."""
        self._finish(whole=False)

    def _go(self) -> None:
        self._event = None
        for answer in self._answers:
            if self._do(answer):
                return
        self._finish(whole=self.head is not None)

    def _do(self, answer: Answer) -> bool:
        """One step of the handler; True when it does not go on now."""
        match answer:
            case Wait(seconds):
                self._event = self._kernel.after(seconds, self._go)
                return True
            case Head():
                self.head = answer
            case Body(data):
                self.head = self.head or Head()
                self.chunks.append(data)
                self._event = self._kernel.after(0.0, self._go)  # the client sees each chunk before the next
                self.watch()
                return True
            case Drop():
                self.drop()
            case Die(code):
                # from the queue: the handler can't be closed while it is the one that runs
                self._kernel.after(0.0, lambda: self._die(code))
                return True
        self.watch()
        return self.over

    def _finish(self, *, whole: bool) -> None:
        if self.over:
            return
        self.complete, self.dropped = whole, not whole
        if self._event is not None:
            self._event.drop()
        if (close := getattr(self._answers, "close", None)) is not None:
            close()
        self._ended(self)
        self.watch()
