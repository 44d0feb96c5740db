"""kill -9 of a day0 whose server runs on the twin: the simulated server is still there, and found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from day0.sandboxes.spec import SandboxSpec
from day0.sandboxes.twin.node import TwinNode
from day0.sandboxes.twin.world import world


@pytest.fixture
def owner(tmp_path):
    script = Path(__file__).with_name("twin_owner.py")
    process = subprocess.Popen([sys.executable, str(script), str(tmp_path)], stdout=subprocess.PIPE, text=True)
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_s01_the_server_of_a_killed_day0_lives_on_in_its_folder_until_it_is_swept(tmp_path, owner):
    word, now = owner.stdout.readline().split()
    assert word == "up"
    beside = TwinNode("twin-0", tmp_path, world("glm-5.2"), cancel=lambda: False)
    assert beside.sweep().stopped == (), "its owner lives"

    owner.kill()
    owner.wait()
    node = TwinNode("twin-0", tmp_path, world("glm-5.2"), cancel=lambda: False)
    assert node.clock.now() == float(now), "no time passed"
    assert node.site.machine.vram_bytes > 1e12, "it holds its memory"
    with node.open(SandboxSpec("job", "", "r1.6")) as sandbox, sandbox.http(20000) as http:
        with pytest.raises(httpx.RemoteProtocolError):
            http.get("/health")  # it listens, and nobody plays it any more
        assert sandbox.free_port() != 20000
    swept = node.sweep()
    assert {attempt for _, attempt in swept.stopped} == {"r1.5"} and len(swept.stopped) == 9
    assert node.site.machine.vram_bytes == 0
    again = TwinNode("twin-0", tmp_path, world("glm-5.2"), cancel=lambda: False)
    assert again.sweep().stopped == () and again.site.machine.vram_bytes == 0
