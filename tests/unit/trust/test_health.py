"""What is watched while a winner is under load: memory that must not grow, clocks and power that are recorded."""

from __future__ import annotations

import json
from math import inf
from pathlib import Path
from types import SimpleNamespace

import pytest
from day0.runs.recipe import parse as parse_recipe
from day0.runs.recipe import render
from day0.sandboxes.scripted import ScriptedNode
from day0.sandboxes.simulated.steps import Exit, Out, Wait
from day0.sandboxes.spec import Vitals
from day0.tools.health import Reading, Watched, leaking, parse, stability, words

from tests.unit.runs.test_recipe import recipe

GIB = 2**30


def card(used: object, watts: object = 900, mhz: object = 2100) -> dict[str, object]:
    return {
        "gpu": 0,
        "mem_usage": {"used_vram": {"value": used, "unit": "MB"}},
        "power": {"socket_power": {"value": watts, "unit": "W"}},
        "clock": {"gfx_0": {"clk": {"value": mhz}}, "gfx_1": {"clk": {"value": 1900}}, "mem_0": {"clk": {"value": 1}}},
    }


def test_amd_smi_is_read_as_a_list_and_under_gpu_data():
    want = Reading(memory_bytes=3_000_000, clock_mhz=1900.0, power_w=950.0)
    rows = [card(1), card(2, 950)]
    assert parse(json.dumps(rows)) == parse(json.dumps({"gpu_data": rows})) == want


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", "3", '[{"gpu": 0}]', '{"gpu_data": 3}', '[{"clock": 1}]'])
def test_what_is_not_said_is_unknown(text):
    assert parse(text) == Reading()


def test_an_idle_accelerators_clock_tells_nothing():
    idle, busy = (
        {**card(1, mhz=mhz), "usage": {"gfx_activity": {"value": use}}} for mhz, use in ((100, 3), (1950, 97))
    )
    assert parse(json.dumps([idle, busy])).clock_mhz == 1900.0 and parse(json.dumps([idle])).clock_mhz is None


def test_a_value_that_is_no_number_is_unknown_and_a_sum_needs_every_accelerator():
    assert parse(json.dumps([card("N/A", "N/A")])) == Reading(clock_mhz=1900.0)
    assert parse(json.dumps([card(1), card("N/A")])).memory_bytes is None


def seen(*gib: float | None) -> list[Reading]:
    return [Reading(None if g is None else int(g * GIB), 2000.0 + n, 900.0 + n) for n, g in enumerate(gib)]


def test_memory_that_is_taken_early_is_no_leak_and_what_grows_after_is():
    lazily = stability(seen(100, 104, 104, 104, 104), 2.0, 2700.0, 5000, 0)
    assert lazily.memory_growth_bytes == 0 and leaking(lazily, 1) == ""
    grows = stability(seen(100, 101, 102, 103, 104), 2.0, 2700.0, 5000, 0)
    assert leaking(grows, 1) == "accelerator memory grew by 3.0 GiB within 2700 s under load"
    assert leaking(grows, 8) == "", "less than a GiB each"


def test_unknown_memory_is_neither_a_leak_nor_called_steady():
    found = stability(seen(None, None), 2.0, 2700.0, 5000, 0, "amd-smi is not on this node")
    assert (found.memory_bytes, found.memory_growth_bytes, leaking(found, 8)) == (None, None, "")
    assert words(found).startswith("memory unknown") and words(found).endswith("amd-smi is not on this node")
    assert stability([], 2.0, 2700.0, 5000, 0).clock_mhz_median is None


def test_clocks_and_power_stand_beside_it():
    told = stability(seen(100, 100, 100, 100, 100), 2.0, 2700.0, 5000, 0)
    assert (told.clock_mhz_least, told.clock_mhz_median, told.power_w_most) == (2001.0, 2002.5, 904.0)
    assert words(told) == "memory grew by 0 MiB; clocks 2002 MHz, at least 2001; power 902 W, at most 904"


def test_a_recipe_carries_what_was_watched():
    held = stability(seen(100, 100), 2.0, 2700.0, 5000, 1, "")
    made = recipe(stability=held)
    assert parse_recipe(render(made)) == made and "memory_growth_bytes: 0" in render(made)


def server(vram: int | None) -> SimpleNamespace:
    calls: list[object] = []
    process = SimpleNamespace(vitals=lambda: Vitals(output_bytes=0, vram_bytes=vram))
    return SimpleNamespace(process=process, alive=calls.append, calls=calls, attention_s=9.0, port=1)


def says(text: str, code: int = 0):
    def program(_):
        yield Out(text.encode())
        yield Exit(code)

    return program


def hangs(_):
    yield Wait(inf)


def node(tmp_path: Path, program=None) -> ScriptedNode:
    programs = {} if program is None else {"amd-smi": program}
    return ScriptedNode("n", tmp_path, programs, cancel=lambda: False)


def test_the_servers_own_memory_counts_where_it_is_known_and_looks_are_apart(tmp_path):
    here, of = node(tmp_path, says(json.dumps([card(5)]))), server(7 * GIB)
    watched = Watched(of, here, 10.0, accelerated=True)
    for _ in range(5):
        watched.alive("counters")
        here.clock.sleep(4.0)
    assert of.calls == ["counters"] * 5 and (watched.port, watched.attention_s) == (1, 9.0)
    assert watched.readings == [Reading(7 * GIB, 1900.0, 900.0)] * 2


@pytest.mark.parametrize(
    ("program", "accelerated", "why"),
    [
        (hangs, True, "did not answer within 10 s"),
        (None, True, "is not on this node"),
        (says("", 1), True, "amd-smi failed"),
        (says("[]"), True, "says nothing of memory"),
        (says("[]"), False, "has no accelerators"),
    ],
)
def test_s16_a_tool_that_is_missing_or_hangs_is_unknown_and_asked_no_more(tmp_path, program, accelerated, why):
    here = node(tmp_path, program)
    watched = Watched(server(None), here, 1.0, accelerated=accelerated)
    for _ in range(4):
        watched.alive()
        here.clock.sleep(2.0)
    assert why in watched.unknown and watched.readings == [Reading()] * 4
    assert here.clock.now() < 20.0, "a tool that hangs costs its time once"
