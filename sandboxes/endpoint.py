"""The only way to an endpoint: an HTTP client whose every blocking call looks at the cancel token.

httpx lets a transport be given but not a socket, so the transport here is httpcore's pool (public API) over a
network backend that waits in slices. Errors are httpx' own, except those that tell of this machine and not of
the server: no descriptors, ports or routes left is `NodeLost`.
"""

from __future__ import annotations

import errno
import select
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from typing import NoReturn

import httpcore
import httpx
from day0.runs.errors import NodeLost
from day0.sandboxes.clock import SLICE_S

TIMEOUT = httpx.Timeout(60.0, connect=5.0, write=30.0, pool=5.0)
OUR_OWN = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL, errno.ENETUNREACH})
Check = Callable[[], None]
"""Raises when the work must stop; called between slices."""


def client(port: int, check: Check, on_error: Check, backend: httpcore.NetworkBackend | None = None) -> httpx.Client:
    """A client for `http://127.0.0.1:PORT` that ignores proxies and the environment.

    `check` runs between slices; `on_error` runs before a transport error leaves, so that a lost node is raised
    instead. `backend` opens the connections: by default on this machine's own loopback.
    """
    return httpx.Client(
        transport=Transport(backend or Backend(check), on_error),
        base_url=f"http://127.0.0.1:{port}",
        timeout=TIMEOUT,
        trust_env=False,
    )


class Transport(httpx.BaseTransport):
    """httpcore's connection pool as an httpx transport."""

    def __init__(self, backend: httpcore.NetworkBackend, on_error: Check) -> None:
        self._on_error = on_error
        self._pool = httpcore.ConnectionPool(network_backend=backend, max_connections=8, keepalive_expiry=5.0)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        assert isinstance(request.stream, httpx.SyncByteStream)
        url = httpcore.URL(
            scheme=request.url.raw_scheme, host=request.url.raw_host, port=request.url.port, target=request.url.raw_path
        )
        outgoing = httpcore.Request(
            method=request.method, url=url, headers=request.headers.raw, content=request.stream,
            extensions=request.extensions,
        )  # fmt: skip
        try:
            answer = self._pool.handle_request(outgoing)
        except EXCEPTIONS as error:
            self._fail(error)
        assert isinstance(answer.stream, Iterable)
        return httpx.Response(
            answer.status, headers=answer.headers, stream=_Body(answer, self._fail), extensions=answer.extensions
        )

    def _fail(self, error: Exception) -> NoReturn:
        self._on_error()
        kind: type[httpx.TransportError] = getattr(httpx, type(error).__name__, httpx.NetworkError)
        raise kind(str(error)) from error

    def close(self) -> None:
        self._pool.close()


class _Body(httpx.SyncByteStream):
    def __init__(self, answer: httpcore.Response, fail: Callable[[Exception], NoReturn]) -> None:
        self._answer, self._fail = answer, fail

    def __iter__(self) -> Iterator[bytes]:
        assert isinstance(self._answer.stream, Iterable)
        try:
            yield from self._answer.stream
        except EXCEPTIONS as error:
            self._fail(error)

    def close(self) -> None:
        self._answer.close()


EXCEPTIONS = (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError, httpcore.UnsupportedProtocol)


class Backend(httpcore.NetworkBackend):
    """Opens loopback connections whose waits are sliced."""

    def __init__(self, check: Check) -> None:
        self._check = check

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[object] | None = None,
    ) -> httpcore.NetworkStream:
        """Raises `httpcore.ConnectError`, `ConnectTimeout`, `NodeLost`, `Cancelled`."""
        self._check()
        try:
            sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            number = sock.connect_ex((host, port))
            if number == errno.EINPROGRESS:
                stream = Stream(sock, self._check)
                if not stream.wait(select.POLLOUT, timeout):
                    sock.close()
                    raise httpcore.ConnectTimeout(f"no connection to port {port} in {timeout} s")
                number = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if number:
                sock.close()
                raise OSError(number, errno.errorcode.get(number, str(number)))
        except OSError as error:
            if error.errno in OUR_OWN:
                raise NodeLost(f"this machine can't open connections: {error.strerror}") from error
            raise httpcore.ConnectError(f"[{error.strerror}] port {port}") from error
        return Stream(sock, self._check)


class Stream(httpcore.NetworkStream):
    """A connected socket."""

    def __init__(self, sock: socket.socket, check: Check) -> None:
        self._sock, self._check = sock, check
        self._poll = select.poll()

    def wait(self, event: int, timeout: float | None) -> bool:
        """Until `event` or the timeout; False on timeout. Raises what the check raises, and closes then."""
        end = None if timeout is None else time.monotonic() + timeout
        self._poll.register(self._sock, event)
        try:
            while True:
                self._check()
                left = SLICE_S if end is None else min(SLICE_S, end - time.monotonic())
                if self._poll.poll(max(0.0, left) * 1000):
                    return True
                if end is not None and time.monotonic() >= end:
                    return False
        except BaseException:
            self._sock.close()
            raise

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Raises `httpcore.ReadTimeout`, `ReadError`."""
        if not self.wait(select.POLLIN, timeout):
            raise httpcore.ReadTimeout(f"nothing came for {timeout} s")
        try:
            return self._sock.recv(max_bytes)
        except OSError as error:
            raise httpcore.ReadError(str(error)) from error

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Raises `httpcore.WriteTimeout`, `WriteError`."""
        view = memoryview(buffer)
        while view:
            if not self.wait(select.POLLOUT, timeout):
                raise httpcore.WriteTimeout(f"nothing was taken for {timeout} s")
            try:
                view = view[self._sock.send(view) :]
            except OSError as error:
                raise httpcore.WriteError(str(error)) from error

    def close(self) -> None:
        self._sock.close()

    def get_extra_info(self, info: str) -> object:
        """`is_readable` tells the pool whether an idle connection was closed by the server."""
        if info == "is_readable":
            poll = select.poll()
            poll.register(self._sock, select.POLLIN)
            return bool(poll.poll(0))
        return None
