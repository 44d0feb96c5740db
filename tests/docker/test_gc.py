"""`day0 gc` on a real daemon: images that this home built go, but for a winner's, a running container's and others'."""

from __future__ import annotations

import os
import signal
from contextlib import closing

import pytest
from day0.agent import machine
from day0.agent.settings import load
from day0.runs import documents
from day0.runs.candidate import Candidate
from day0.runs.ledger import Ledger
from day0.runs.schema import RunRequest, RunStatus
from day0.sandboxes.docker import DockerNode
from day0.sandboxes.docker_build import Build
from day0.tools import image_build

from tests.contract.node_worlds.contained import BASE, SOCKET, engine


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home of its own, whose commands ask the tests' daemon."""
    for name in [name for name in os.environ if name.startswith("DAY0_") and name != "DAY0_TEST_DOCKER"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("DAY0_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DOCKER_HOST", SOCKET)
    before = signal.getsignal(signal.SIGTERM)
    yield tmp_path / "home"
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def built(tmp_path):
    """Builds small images: as a node in this folder would, each with another content."""
    nodes = []

    def make(nodes_folder, what):
        node = DockerNode("docker", nodes_folder, engine=engine(), base=BASE, allowed=(), cancel=lambda: False)
        nodes.append(node)
        context = tmp_path / f"context-{len(nodes)}"
        context.mkdir()
        (context / "Dockerfile").write_text(f"FROM {BASE}\nENV WHAT={what}-{os.getpid()}\n")
        return image_build.build(node, Build(context), lambda name, log: None, needed=0, timeout_s=120)

    yield make
    for node in nodes:
        node.prune(keep=())
        node.close()


def run_with(ledger, build):
    """A run on containers that is going on, with a winner of that build; its ID."""
    target = documents.target("cpu-docker")
    work = (documents.workload("cpu-chat"),)
    run = ledger.submit(RunRequest(model="m", revision="r", target=target, workloads=work)).run.id
    with ledger.write(run) as writer:
        writer.move_run(RunStatus.RUNNING, "")
        candidate = Candidate(engine="sglang", build=build, model="m", revision="r")
        attempt = writer.add_attempt(candidate=candidate, proposer="baseline")
        writer.event("confirmed", {"workload": "cpu-chat", "ok": True}, attempt=attempt.id)
    return run


def test_s22_gc_removes_only_images_that_this_home_built_and_that_no_winner_needs(
    home, built, daemon, tmp_path, capsys
):
    winners, mine, used = (built(home / "nodes", what) for what in ("winner", "mine", "used"))
    others = built(tmp_path / "elsewhere", "others")
    container = daemon.api.create_container(used, ["true"])["Id"]

    def here():
        return {name for name, image in IMAGES.items() if image in {i["Id"] for i in daemon.api.images(all=True)}}

    IMAGES = {"winner": winners, "mine": mine, "used": used, "others": others}
    try:
        with closing(Ledger.open(load().database)) as ledger:
            run = run_with(ledger, winners)
            machine.gc(0.0, sweep_only=False)
            assert here() == set(IMAGES), "a run that is going on may need any of them"
            with ledger.write(run) as writer:
                writer.move_run(RunStatus.DONE, "")
        machine.gc(30.0, sweep_only=False)
        machine.gc(0.0, sweep_only=True)
        assert here() == set(IMAGES), "young ones stay, and a sweep removes none"
        capsys.readouterr()
        machine.gc(0.0, sweep_only=False)
        assert here() == {"winner", "used", "others"} and daemon.image(BASE)
        assert "removed 1 images that day0 built" in capsys.readouterr().out
    finally:
        daemon.remove(container)
    machine.gc(0.0, sweep_only=False)
    assert here() == {"winner", "others"}, "once nothing runs from it any more it goes, too"
