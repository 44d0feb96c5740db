from __future__ import annotations

from dataclasses import replace

import pytest
from day0.sandboxes.spec import Vitals
from day0.sandboxes.watch import Limits, Liveness, boot_cap_s
from hypothesis import given
from hypothesis import strategies as st

LIMITS = Limits(boot_stall_s=300, stall_s=20, boot_cap_s=6000)
STILL = Vitals(output_bytes=10, cpu_s=1.0, io_bytes=0, children=3, vram_bytes=0)


def boot(life: Liveness, until: float, vitals=lambda t: STILL, start: float = 0.0, step: float = 0.5):
    now, verdict = start, life.booting(start, vitals(start))
    while now < until and verdict.state == "alive":
        now += step
        verdict = life.booting(now, vitals(now))
    return now, verdict


def test_s28_a_dead_start_is_noticed_after_the_limit():
    now, verdict = boot(Liveness(LIMITS, 0), 10_000)
    assert verdict.state == "stalled"
    assert 300 < now <= 301
    assert "no output" in verdict.why


@pytest.mark.parametrize(
    ("sign", "vitals"),
    [
        ("output", lambda t: replace(STILL, output_bytes=int(t / 200))),
        ("children", lambda t: replace(STILL, children=int(t / 200) % 2)),
        ("accelerator memory", lambda t: replace(STILL, vram_bytes=int(t / 200))),
        ("I/O", lambda t: replace(STILL, io_bytes=int(t / 200) << 20)),
        ("CPU", lambda t: replace(STILL, cpu_s=t * 0.9)),
    ],
)
def test_s28_any_sign_of_life_keeps_a_slow_start(sign, vitals):
    _, verdict = boot(Liveness(LIMITS, 0), 1700, vitals)
    assert (verdict.state, verdict.sign) == ("alive", sign)


def test_cpu_alone_counts_for_thirty_minutes():
    now, verdict = boot(Liveness(LIMITS, 0), 10_000, lambda t: replace(STILL, cpu_s=t))
    assert verdict.state == "stalled"
    assert 1800 + 295 < now <= 1800 + 305
    assert "CPU" in verdict.why


def test_thirty_minutes_of_silent_compilation_with_a_line_in_between_are_fine():
    _, verdict = boot(Liveness(LIMITS, 0), 3400, lambda t: replace(STILL, cpu_s=t, output_bytes=10 + (t > 1700)))
    assert verdict.state == "alive"


def test_a_polling_heartbeat_is_no_progress():
    def vitals(t):
        return replace(STILL, cpu_s=1 + t * 0.05, io_bytes=int(t) * 512)

    now, verdict = boot(Liveness(LIMITS, 0), 10_000, vitals)
    assert (verdict.state, now <= 301) == ("stalled", True)


def test_bursts_of_a_hung_poller_do_not_look_busy():
    def vitals(t):  # 30 ms every second
        return replace(STILL, cpu_s=int(t) * 0.03)

    assert boot(Liveness(LIMITS, 0), 10_000, vitals)[1].state == "stalled"


def test_unknown_vitals_are_no_progress_and_no_error():
    assert boot(Liveness(LIMITS, 0), 10_000, lambda t: Vitals(0))[1].state == "stalled"


def test_a_boot_has_a_hard_cap_whatever_it_prints():
    now, verdict = boot(Liveness(LIMITS, 0), 10_000, lambda t: replace(STILL, output_bytes=int(t)), step=2)
    assert verdict.state == "capped"
    assert 6000 < now <= 6002
    assert (boot_cap_s(60), boot_cap_s(1200)) == (2400, 3600)


def test_a_child_that_takes_its_io_along_does_not_hide_later_io():
    life = Liveness(LIMITS, 0)
    life.booting(0, replace(STILL, io_bytes=100 << 20))
    life.booting(1, replace(STILL, io_bytes=1 << 20))
    assert life.booting(2, replace(STILL, io_bytes=3 << 20)).sign == "I/O"


def test_s05_a_ready_server_that_works_lives_however_old_it_is():
    life = Liveness(LIMITS, 0)
    life.ready(100)
    for hour in range(1, 100):
        for second in range(0, 60, 10):
            verdict = life.serving(100 + hour * 3600 + second, done=hour * 100 + second, in_flight=5)
    assert verdict.state == "alive"


def test_a_stopped_scheduler_under_load_is_noticed():
    life = Liveness(LIMITS, 0)
    life.ready(100)
    assert life.serving(110, done=50, in_flight=8).state == "alive"
    assert life.serving(129, done=50, in_flight=8).state == "alive"
    verdict = life.serving(131, done=50, in_flight=8)
    assert (verdict.state, verdict.quiet_s) == ("stalled", 21)
    assert "no token" in verdict.why


def test_counters_that_cannot_be_read_count_as_loaded():
    life = Liveness(LIMITS, 0)
    life.ready(100)
    assert life.serving(125, done=None, in_flight=None).state == "stalled"


def test_an_idle_server_is_well_and_its_time_starts_with_the_load():
    life = Liveness(LIMITS, 0)
    life.ready(100)
    assert life.serving(500, done=7, in_flight=0).state == "alive"
    assert life.serving(900, done=7, in_flight=0).sign == "idle"
    assert life.serving(915, done=7, in_flight=3).state == "alive"
    assert life.serving(921, done=7, in_flight=3).state == "stalled"


def test_a_counter_that_starts_anew_is_progress():
    life = Liveness(LIMITS, 0)
    life.ready(0)
    life.serving(1, done=100, in_flight=1)
    assert life.serving(30, done=5, in_flight=1).state == "alive"


@given(st.lists(st.tuples(st.floats(0.01, 50), st.integers(0, 3), st.sampled_from([0, 0, 1 << 21])), max_size=60))
def test_quiet_never_exceeds_the_limit_while_alive(steps):
    life, now, output, io = Liveness(LIMITS, 0), 0.0, 0, 0
    for wait, printed, read in steps:
        now, output, io = now + wait, output + printed, io + read
        verdict = life.booting(now, Vitals(output, cpu_s=None, io_bytes=io, children=1))
        assert (verdict.state == "alive") == (verdict.quiet_s <= LIMITS.boot_stall_s)
        if printed:
            assert verdict.quiet_s == 0
