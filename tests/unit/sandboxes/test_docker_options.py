"""What a container can be given, and that nothing else can be asked for."""

from __future__ import annotations

import dataclasses
import socket

import pytest
from day0.runs.errors import Infrastructure, Refused
from day0.sandboxes.docker_options import Accelerators, Allowed, Container, Joined, Mount
from day0.sandboxes.spec import SandboxSpec


def made(**more) -> dict:
    fields = {"image": "sha256:1", "command": ("x",), "network": "none", "user": "1000:1000", "labels": {}} | more
    return Container(**fields).host_config()


def test_s65_privileges_are_no_field_of_anything_that_asks_for_a_container():
    names = {f.name for kind in (Container, SandboxSpec, Accelerators, Mount) for f in dataclasses.fields(kind)}
    assert not names & {"privileged", "cap_add", "security_opt", "pid_mode", "devices_host", "binds", "volumes_from"}
    for config in (made(), made(accelerators=Accelerators()), made(accelerators=Accelerators(traced=True))):
        assert config["Privileged"] is False
        assert config["CapDrop"] == ["ALL"]
        assert "no-new-privileges:true" in config["SecurityOpt"]
        assert not {"PidMode", "UTSMode", "UsernsMode", "VolumesFrom", "CgroupParent"} & set(config)
        assert config["NetworkMode"] != "host"


def test_accelerators_are_typed_and_only_the_traced_ones_may_trace():
    plain, gpus = made(), made(accelerators=Accelerators(groups=(44, 110)))
    assert "Devices" not in plain
    assert [d["PathOnHost"] for d in gpus["Devices"]] == ["/dev/kfd", "/dev/dri"]
    assert (gpus["ShmSize"], gpus["GroupAdd"], gpus["CapAdd"]) == (32 << 30, ["44", "110"], [])
    assert {"Name": "memlock", "Soft": -1, "Hard": -1} in gpus["Ulimits"]
    traced = made(accelerators=Accelerators(traced=True))
    assert traced["CapAdd"] == ["SYS_PTRACE"] and "seccomp=unconfined" in traced["SecurityOpt"]


def test_memory_swap_cores_and_tasks_are_bounded():
    config = made(memory_bytes=1 << 30, cores=(0, 3), pids=100, network=Joined("abc"))
    assert (config["Memory"], config["MemorySwap"], config["PidsLimit"]) == (1 << 30, 1 << 30, 100)
    assert (config["CpusetCpus"], config["NetworkMode"], config["Init"]) == ("0,3", "container:abc", True)
    assert made()["PidsLimit"] > 0


@pytest.mark.parametrize(
    "path",
    ["/", "/etc", "/etc/passwd", "/proc/1", "/sys", "/dev/kfd", "/root", "/home", "/var/run", "/run", "/dev/null"],
)
def test_s65_paths_that_are_never_shown_even_where_all_is_allowed(path, tmp_path):
    from pathlib import Path

    with pytest.raises((Refused, Infrastructure)):
        Allowed((Path("/"),)).show(path)


def test_s65_a_socket_a_secret_folder_and_what_a_link_hides_are_not_shown(tmp_path, monkeypatch):
    weights = tmp_path / "weights"
    weights.mkdir()
    (tmp_path / ".ssh").mkdir()
    (weights / "out").symlink_to(tmp_path)
    (weights / "keys").symlink_to(tmp_path / ".ssh")
    monkeypatch.chdir(weights)
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind("docker.sock")
        allowed = Allowed((weights,))
        assert allowed.show(str(weights)) == (Mount(str(weights)),)
        for path in ("docker.sock", "out", "keys", "..", "../.ssh"):
            with pytest.raises(Refused):
                allowed.show(str(weights / path))
        with pytest.raises(Refused):
            Allowed((tmp_path,)).show(str(weights / "keys"))
    with pytest.raises(Infrastructure):
        allowed.show(str(weights / "absent"))


def test_a_link_to_weights_elsewhere_in_the_allowed_shows_both_places(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert Allowed((tmp_path,)).show(str(tmp_path / "b")) == (Mount(str(tmp_path / "b")), Mount(str(tmp_path / "a")))
