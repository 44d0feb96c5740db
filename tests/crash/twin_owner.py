"""Boots a simulated server: `python twin_owner.py HOME`. Says `up` when it is, then waits to be killed."""

import sys
import time
from pathlib import Path

from day0.sandboxes.spec import SandboxSpec
from day0.sandboxes.twin.node import TwinNode
from day0.sandboxes.twin.world import world

home, found = Path(sys.argv[1]), world("glm-5.2")
node = TwinNode("twin-0", home, found, cancel=lambda: False)
with node.open(SandboxSpec("server", found.builds[0].name, "r1.5", epoch=1)) as sandbox:
    line = [
        "python",
        "-m",
        "sglang.launch_server",
        "--model-path",
        "m",
        "--port",
        str(sandbox.free_port()),
        "--tp-size",
        "8",
    ]
    process = sandbox.spawn(line)
    while b"fired up" not in process.output(0, 1 << 20):
        node.clock.sleep(10.0)
    sys.stdout.write(f"up {node.clock.now()!r}\n")
    sys.stdout.flush()
    time.sleep(60)
