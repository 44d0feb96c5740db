"""This machine: programs are Python scripts in the `bin` of an environment folder."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from day0.sandboxes import identity
from day0.sandboxes.local import LocalNode

SERVER = """
import os, socket, sys, time
port, late = int(sys.argv[1]), float(sys.argv[2])
time.sleep(late)
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("127.0.0.1", port)); s.listen(16); print("listening", flush=True)
while True:
    c, _ = s.accept()
    head = b""
    while b"\\r\\n\\r\\n" not in head:
        more = c.recv(65536)
        if not more: break
        head += more
    path = head.split(b" ")[1].decode() if head else ""
    ok = b"HTTP/1.1 200 OK\\r\\nConnection: close\\r\\nContent-Length: "
    if path == "/ok": c.sendall(ok + b"2\\r\\n\\r\\nok")
    elif path == "/error": c.sendall(b"HTTP/1.1 500 No\\r\\nConnection: close\\r\\nContent-Length: 0\\r\\n\\r\\n")
    elif path == "/hang":
        globals().setdefault("held", []).append(c); continue
    elif path == "/half": c.sendall(ok + b"100\\r\\n\\r\\n0123456789")
    elif path == "/die": c.sendall(ok + b"100\\r\\n\\r\\n0123456789"); time.sleep(0.05); os._exit(3)
    elif path == "/stream":
        c.sendall(b"HTTP/1.1 200 OK\\r\\nConnection: close\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n")
        for n in range(3): c.sendall(b"3\\r\\na" + str(n).encode() + b"\\n\\r\\n"); time.sleep(0.05)
        c.sendall(b"0\\r\\n\\r\\n")
    c.close()
"""
PROGRAMS = {
    "say": "import sys; print(*sys.argv[1:])",
    "show-env": "import os; [print(k + '=' + v) for k, v in sorted(os.environ.items())]",
    "fail": "import sys; print('it broke'); sys.exit(int(sys.argv[1]))",
    "serve": SERVER,
    "nap": "import sys, time; time.sleep(float(sys.argv[1]))",
    "burn": "while True: pass",
    "stubborn": "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(300)",
    "polite": """
import os, signal, sys, time
def bye(*_): os.write(1, b"bye\\n"); sys.exit(7)  # a print would fail inside the other one
signal.signal(15, bye); print("up", flush=True); time.sleep(300)""",
    "family": """
import os, sys, time
if os.fork() == 0:
    for _ in range(int(sys.argv[1])):
        if os.fork() == 0: time.sleep(300)
    time.sleep(300)
print("up", flush=True); time.sleep(300)""",
    "daemon": """
import os, time
if os.fork(): os.wait(); os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
print("up", flush=True); time.sleep(300)""",
    "flood": """
import os, sys
block = bytes(range(48, 112)) * 16384
for n in range(int(sys.argv[1])): os.write(1, b"%015d\\n" % n + block[16:])
os.write(1, b"the end\\n")""",
    "echo": "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())",
    "note": "import sys; open(sys.argv[1], 'w').write(sys.argv[2])",
    "plant": "import os, sys; os.symlink(sys.argv[1], sys.argv[2])",
}
LEAVER = """
import os, signal, sys, time
from pathlib import Path
from day0.sandboxes.local import LocalNode
from day0.sandboxes.spec import SandboxSpec
node = LocalNode("n1", Path(sys.argv[1]), cancel=lambda: False)
with node.open(SandboxSpec("server", sys.argv[2], "r1.9")) as sandbox:
    process = sandbox.spawn(sys.argv[3:])
    while b"up" not in process.output(0, 99): time.sleep(0.01)
    time.sleep(0.15)
    os.kill(process.pid, signal.SIGKILL); os.kill(os.getpid(), signal.SIGKILL)
"""


class RealWorld:
    """A `LocalNode` in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = str(folder / "engine")
        (folder / "engine/bin").mkdir(parents=True)
        for name, source in PROGRAMS.items():
            script = folder / "engine/bin" / name
            script.write_text(f"#!{sys.executable} -IS\n{source}\n")
            script.chmod(0o755)
        self._cancelled = threading.Event()
        self.node = self.restarted()

    def restarted(self) -> LocalNode:
        """The node as a new day0 finds it."""
        return LocalNode("n1", self.folder, cancel=self._cancelled.is_set)

    def cancel_after(self, seconds: float) -> None:
        """Somebody cancels in that many node seconds."""
        timer = threading.Timer(seconds, self._cancelled.set)
        timer.daemon = True
        timer.start()

    def leave_behind(self, *argv: str) -> None:
        """A day0 is killed together with its wardens while `argv` runs."""
        subprocess.run(
            [sys.executable, "-c", LEAVER, str(self.folder), self.environment, *argv], check=False, timeout=20
        )

    @contextlib.contextmanager
    def stranger_on(self, port: int) -> Iterator[None]:
        """Somebody else's process listens on a port."""
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(("127.0.0.1", port))
            sock.listen()
            yield

    def living(self) -> int:
        """How many processes with our label run."""
        mark = str(self.folder)
        return sum(
            1
            for process in identity.table().values()
            if process.state not in "ZX" and identity.environment(process.pid).get(identity.LABEL, "").startswith(mark)
        )

    def close(self) -> None:
        """Nothing of a failed test may disturb the next one."""
        for process in identity.table().values():
            if identity.environment(process.pid).get(identity.LABEL, "").startswith(str(self.folder)):
                identity.send(identity.Known(process.pid, process.start), signal.SIGKILL)
