"""httpx over virtual time: waiting for a response lets the machine's event queue run."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import httpx
from day0.sandboxes.simulated.exchange import Exchange
from day0.sandboxes.simulated.kernel import Action
from day0.sandboxes.simulated.machine import Machine
from day0.sandboxes.simulated.steps import Request

DEFAULT_S = 60.0


class VirtualTransport(httpx.BaseTransport):
    """Raises httpx' own `ConnectError`, `ReadTimeout`, `RemoteProtocolError`, as a socket would."""

    def __init__(self, machine: Machine, check: Action) -> None:
        self._machine, self._check = machine, check

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self._check()
        asked = Request(request.method, request.url.raw_path.decode(), dict(request.headers), request.read())
        exchange = self._machine.connect(request.url.port or 80, asked)
        if exchange is None:
            raise httpx.ConnectError("[Connection refused]", request=request)
        timeout = request.extensions.get("timeout", {}).get("read", DEFAULT_S)
        wait = _Waiting(self._machine, exchange, self._check, timeout, request)
        wait.until(lambda: exchange.head is not None or exchange.over)
        if exchange.head is None:
            raise httpx.RemoteProtocolError("Server disconnected without sending a response.", request=request)
        return httpx.Response(exchange.head.status, headers=dict(exchange.head.headers), stream=wait)


class _Waiting(httpx.SyncByteStream):
    def __init__(
        self, machine: Machine, exchange: Exchange, check: Action, timeout: float | None, request: httpx.Request
    ) -> None:
        self._machine, self._exchange, self._check = machine, exchange, check
        self._timeout, self._request = timeout, request

    def until(self, done: Callable[[], bool]) -> None:
        """Lets time pass; the read timeout counts from now, as between two reads of a socket."""
        limit = float("inf") if self._timeout is None else self._machine.kernel.now + self._timeout
        try:
            happened = self._machine.kernel.run(limit, done, self._check)
        except BaseException:
            self._exchange.drop()
            raise
        if not happened:
            self._exchange.drop()
            raise httpx.ReadTimeout(f"nothing came for {self._timeout:g} s", request=self._request)

    def __iter__(self) -> Iterator[bytes]:
        exchange = self._exchange
        while True:
            self.until(lambda: bool(exchange.chunks) or exchange.over)
            if exchange.chunks:
                yield exchange.chunks.pop(0)
            elif exchange.complete:
                return
            else:
                message = "peer closed connection without sending complete message body (incomplete chunked read)"
                raise httpx.RemoteProtocolError(message, request=self._request)

    def close(self) -> None:
        self._exchange.drop()
