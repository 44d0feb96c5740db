from __future__ import annotations

from day0.runs.engine_facts import NodeFacts
from day0.sandboxes.node import parse_df, parse_lscpu, parse_meminfo, parse_switch, preflight, problems
from day0.sandboxes.scripted import ScriptedNode
from day0.sandboxes.simulated.steps import Exit, Out, Wait

LSCPU = """Architecture:                            x86_64
CPU(s):                                  2
Model name:                              AMD EPYC 9575F 64-Core Processor
NUMA node0 CPU(s):                       0,1
"""
DF = """Filesystem         1-blocks        Used   Available Capacity Mounted on
/dev/vda       270553174016 28138553344 80805740544      26% /
"""


def printing(text: str):
    def program(ctx):
        yield Out(text.encode())

    return program


def cat(ctx):
    files = {
        "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave\n",
        "/proc/sys/kernel/numa_balancing": "1\n",
        "/proc/meminfo": "MemTotal:       24683000 kB\nMemFree: 1 kB\n",
        "/proc/sys/kernel/random/boot_id": "5f0c\n",
    }
    yield Out(files[ctx.argv[1]].encode())


def hang(ctx):
    yield Wait(1e9)


def broken(ctx):
    yield Out(b"no such thing")
    yield Exit(1)


def test_s26_governor_and_numa_balancing_are_recorded(tmp_path):
    programs = {
        "lscpu": printing(LSCPU), "df": printing(DF), "cat": cat, "nproc": printing("2\n"), "uname": printing("6.1\n"),
    }  # fmt: skip
    facts = preflight(ScriptedNode("n1", tmp_path, programs, cancel=lambda: False))
    assert facts == NodeFacts(
        name="n1", cpu="AMD EPYC 9575F 64-Core Processor", cores=2, memory_bytes=24683000 * 1024,
        disk_free_bytes=80805740544, governor="powersave", numa_balancing=True, kernel="6.1", boot_id="5f0c",
        problems=facts.problems,
    )  # fmt: skip
    assert [p.split(":")[0] for p in facts.problems] == [
        "the CPU governor is powersave, not performance",
        "automatic NUMA balancing is on",
    ]


def test_s16_missing_failing_and_hanging_commands_are_unknown_and_bounded(tmp_path):
    node = ScriptedNode("n1", tmp_path, {"lscpu": hang, "df": broken, "cat": hang}, cancel=lambda: False)
    facts = preflight(node)
    assert facts == NodeFacts(name="n1")
    assert node.clock.now() <= 5 * 10


def test_a_full_disk_is_a_problem():
    assert "1.0 GiB" in problems(NodeFacts(name="n", disk_free_bytes=1 << 30))[0]
    assert problems(NodeFacts(name="n", governor="performance", numa_balancing=False)) == ()


def test_parsers_take_nothing_for_something():
    assert parse_lscpu(LSCPU)["NUMA node0 CPU(s)"] == "0,1"
    assert (parse_lscpu(None), parse_df(None), parse_meminfo(None), parse_switch(None)) == ({}, None, None, None)
    assert (parse_df("junk\nmore junk"), parse_meminfo("x"), parse_switch("maybe")) == (None, None, None)
    assert (parse_switch("0\n"), parse_switch("2\n")) == (False, True)
    assert (
        parse_df("Filesystem 1-blocks Used Available Capacity Mounted on\n/dev/a b 10 4 6 40% /mnt/with space\n") == 6
    )
