"""httpx over virtual time: waiting for a response lets the machine's event queue run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx
from day0.sandboxes.simulated.exchange import Exchange
from day0.sandboxes.simulated.kernel import Action
from day0.sandboxes.simulated.machine import Machine
from day0.sandboxes.simulated.steps import Head, Request

DEFAULT_S = 60.0


class VirtualTransport(httpx.BaseTransport):
    """Raises httpx' own `ConnectError`, `ReadTimeout`, `RemoteProtocolError`, as a socket would."""

    def __init__(self, machine: Machine, check: Action) -> None:
        self._machine, self._check = machine, check

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """The response once its head is there; its body comes as it is read."""
        head, wait = self._begun(request)
        return httpx.Response(head.status, headers=dict(head.headers), stream=wait)

    def whole(self, request: httpx.Request) -> httpx.Response:
        """The response with its body."""
        head, wait = self._begun(request)
        return httpx.Response(head.status, headers=dict(head.headers), content=b"".join(wait), request=request)

    def _begun(self, request: httpx.Request) -> tuple[Head, _Waiting]:
        self._check()
        asked = Request(request.method, request.url.raw_path.decode(), request.headers, request.read())
        exchange = self._machine.connect(request.url.port or 80, asked)
        if exchange is None:
            raise httpx.ConnectError("[Connection refused]", request=request)
        timeout = request.extensions.get("timeout", {}).get("read", DEFAULT_S)
        wait = _Waiting(self._machine, exchange, self._check, timeout, request)
        wait.until(lambda: exchange.head is not None or exchange.over)
        if exchange.head is None:
            raise httpx.RemoteProtocolError("Server disconnected without sending a response.", request=request)
        return exchange.head, wait


class VirtualClient(httpx.Client):
    """A client without cookies, redirects and authentication, of which a simulated server knows nothing.

    They are two thirds of what a request costs, and a server under load is asked a hundred times a point.
    """

    def __init__(self, transport: VirtualTransport, **more: Any) -> None:
        super().__init__(transport=transport, trust_env=False, **more)
        self._virtual = transport
        self._plain: dict[tuple[str, str, object], httpx.Request] = {}

    def build_request(self, method: str, url: httpx.URL | str, **more: Any) -> httpx.Request:
        """As httpx'; a request that is nothing but a place is made once."""
        limit = more.get("timeout")
        bare = all(value is None for name, value in more.items() if name != "timeout")
        if not bare or not isinstance(url, str) or isinstance(limit, (tuple, httpx.Timeout)):
            return super().build_request(method, url, **more)
        key = (method, url, limit)
        if key not in self._plain:
            self._plain[key] = super().build_request(method, url, **more)
        return self._plain[key]

    def send(self, request: httpx.Request, *, stream: bool = False, **more: Any) -> httpx.Response:
        """As httpx'."""
        if stream or self.is_closed:
            return super().send(request, stream=stream, **more)
        return self._virtual.whole(request)


class _Waiting(httpx.SyncByteStream):
    def __init__(
        self, machine: Machine, exchange: Exchange, check: Action, timeout: float | None, request: httpx.Request
    ) -> None:
        self._machine, self._exchange, self._check = machine, exchange, check
        self._timeout, self._request = timeout, request

    def until(self, done: Callable[[], bool]) -> None:
        """Lets time pass; the read timeout counts from now, as between two reads of a socket."""
        if done():
            return
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
