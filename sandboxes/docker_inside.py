"""What runs in a container on day0's behalf: `python3 -I -S docker_inside.py MODE FOLDER`, standard library only.

`keep` holds a container as long as its owner lives. `relay` does so too and passes connections from a unix socket in
FOLDER to ports of this network namespace: the client's first line names the port, the answer's first line is 0 or
an errno. `warden` is the warden (`warden.py`) over named pipes in FOLDER in place of a parent's pipes.

The owner is known to live by its end of the pipe FOLDER/life, which the kernel closes for it whatever happens.
"""

# Every module of the standard library costs a container's start; pathlib alone doubles it.
# ruff: noqa: PTH118, PTH123, SIM105

import os
import socket
import sys
import threading
import time
from types import ModuleType

ORPHAN_S = 12.0
"""From the owner's end to the container's: its wardens stop what runs within 5 s, this is for what they could not."""
CHUNK = 1 << 18


def outlive_owner(folder: str) -> None:
    """Returns when the owner has been gone for a while."""
    with open(os.path.join(folder, "life"), "rb", buffering=0) as owner:
        while owner.read(1):
            pass
    time.sleep(ORPHAN_S)


def relay(folder: str) -> None:
    """Serves the unix socket `http` in the folder, by a relative name: an absolute one may be too long for it."""
    os.chdir(folder)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind("http")
    listener.listen(512)
    while True:
        client, _ = listener.accept()
        threading.Thread(target=serve, args=(client,), daemon=True).start()


def serve(client: socket.socket) -> None:
    """One connection, from its first line to its end."""
    line = b""
    try:
        while not line.endswith(b"\n"):
            more = client.recv(1)
            if not more or len(line) > 8:
                client.close()
                return
            line += more
        server = socket.create_connection(("127.0.0.1", int(line)), 5.0)
    except OSError as error:
        answer(client, error.errno or 110)
        client.close()
        return
    server.settimeout(None)
    server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    answer(client, 0)
    threading.Thread(target=pump, args=(client, server), daemon=True).start()
    pump(server, client)


def answer(client: socket.socket, number: int) -> None:
    """The first line back; the client may be gone."""
    try:
        client.sendall(b"%d\n" % number)
    except OSError:
        pass


def pump(source: socket.socket, target: socket.socket) -> None:
    """Moves bytes until one side ends; then both do, since no HTTP client closes half of a connection."""
    try:
        while data := source.recv(CHUNK):
            target.sendall(data)
    except OSError:
        pass
    for end in (source, target):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def warden(folder: str) -> int:
    """The pipes in place of standard input and output, then the warden.

    The one that it tells by comes first: once day0 could open the other one, the end of this process shows.
    """
    for name, flags, number in (("events", os.O_WRONLY, 1), ("orders", os.O_RDONLY, 0)):
        fd = os.open(os.path.join(folder, name), flags)
        os.dup2(fd, number)
        os.close(fd)
    errors = os.open(os.path.join(folder, "warden.err"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(errors, 2)
    os.close(errors)
    package = ModuleType("day0")
    package.__path__ = [__file__.rsplit("/", 2)[0]]
    sys.modules["day0"] = package
    from day0.sandboxes.warden import main

    return main(folder)


if __name__ == "__main__":
    mode, folder = sys.argv[1:3]
    if mode == "warden":
        sys.exit(warden(folder))
    if mode == "relay":
        threading.Thread(target=relay, args=(folder,), daemon=True).start()
    outlive_owner(folder)
