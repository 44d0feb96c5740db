"""Patches and tables where a server runs: the simulated node judges the source and the rows that lie there."""

from contextlib import contextmanager

import pytest
from day0.runs.errors import CandidateFailed, Infrastructure, Refused
from day0.runs.facts import ArtifactKept, Progress
from day0.sandboxes.scripted import ScriptedNode
from day0.sandboxes.spec import SandboxSpec
from day0.sandboxes.twin import checkpoint
from day0.sandboxes.twin.node import TwinNode
from day0.sandboxes.twin.programs import tuner
from day0.sandboxes.twin.world import Tuned, world
from day0.tools import patch, tune
from day0.tools.aiter_shapes import Shape, Untuned, untuned
from day0.tools.aiter_tables import HEADER, coverage

WORLD = world("glm-5.2")
BUILD = WORLD.builds[0].name
SPECULATION = ["--speculative-algorithm", "EAGLE", "--speculative-num-steps", "5", "--speculative-eagle-topk", "1"]
SPECULATION += ["--speculative-num-draft-tokens", "6", "--max-running-requests", "256", "--disable-custom-all-reduce"]
READY = b"The server is fired up and ready to roll!"
A = Shape(token=1, model_dim=6144, inter_dim=512, expert=257, topk=9)


@pytest.fixture
def twin(tmp_path):
    return make(tmp_path)


def make(folder, **changes):
    own = WORLD.model_copy(update=changes)
    checkpoint.write(own, folder / "models")
    return TwinNode("twin-0", folder / "twin", own, cancel=lambda: False)


@contextmanager
def job(node, role="job"):
    with node.open(SandboxSpec(role, BUILD, "r1.1", caches=("jit",))) as sandbox:
        yield sandbox


def boots(node, model, patches=(), tables=(), flags=SPECULATION):
    """The server's log: it is dressed, launched, and stopped once it is ready or dead."""
    with job(node, "server") as sandbox:
        env = patch.dress(sandbox, patches, tables, {})
        argv = ["python", "-m", "sglang.launch_server", "--model-path", str(model), "--port", str(sandbox.free_port())]
        process = sandbox.spawn([*argv, "--host", "127.0.0.1", "--tp-size", "4", "--dp-size", "2", *flags], env=env)
        log = b""
        for _ in range(400):
            node.clock.sleep(5.0)
            log = process.output(0, 1 << 20)
            if READY in log or process.poll():
                break
        return log


def made(node, name, why=""):
    with job(node) as sandbox:
        return patch.made(name, patch.source_of(sandbox), build=BUILD, config=dict(WORLD.model.config), why=why)


def test_both_blockers_of_glm_are_found_in_the_log_mended_and_gone(twin, tmp_path):
    from day0.tools.diagnose import diagnose
    from day0.tools.known import codemod_of

    model = tmp_path / "models" / WORLD.model.id
    assert model.is_dir(), sorted((tmp_path / "models").iterdir())
    patches = []
    for expected in ("nextn-prefixes", "rocm-guard"):
        log = boots(twin, model, patches)
        assert READY not in log
        found = diagnose(log)
        assert codemod_of(found.issue) == expected, found
        patches.append(made(twin, expected, found.evidence))
        assert any(text.encode() in log for text in patches[-1].gone)
    log = boots(twin, model, patches)
    assert READY in log
    assert not [text for p in patches for text in p.gone if text.encode() in log], "each patch is proved to engage"


def finished(steps):
    """All facts of a generator, and what it returned."""
    facts = []
    while True:
        try:
            facts.append(next(steps))
        except StopIteration as stop:
            return facts, stop.value


def test_what_a_log_shows_untuned_is_tuned_and_the_server_takes_it(twin, tmp_path):
    model = tmp_path / "models" / WORLD.model.id
    log = boots(twin, model, flags=())
    told = untuned(log)
    assert READY in log and told.coverage == 0.0 and told.arch == "gfx950"
    with job(twin) as sandbox:
        facts, table = finished(tune.tune(sandbox, told, build=BUILD, clock=twin.clock, timeout_s=7200))
    assert coverage(told.wanted(), [table.text], arch="gfx950") == 1.0 and table.rows == len(told.wanted())
    assert "0% -> 100%" in table.why and table.variable == "AITER_CONFIG_FMOE"
    assert [f.text for f in facts if isinstance(f, Progress)][-1].startswith("tuned rows for 0%")
    assert {f.name for f in facts if isinstance(f, ArtifactKept)} == {"tuner.log", "tuned.csv"}
    with job(twin, "server") as sandbox:
        (path,) = patch.dress(sandbox, (), (table,), {}).values()
        assert path.startswith("/sgl-workspace/day0/") and sandbox.read(path, 1 << 20) == table.text.encode()
        with pytest.raises(CandidateFailed, match="is set already"):
            patch.dress(sandbox, (), (table,), {"AITER_CONFIG_FMOE": "x"})
    after = untuned(boots(twin, model, tables=(table, table), flags=()))
    assert after.coverage == 1.0, "proved from the log of the next boot"


def test_a_table_of_another_layout_does_not_engage(twin, tmp_path):
    model = tmp_path / "models" / WORLD.model.id
    told = Untuned(shapes=(A.model_copy(update={"inter_dim": 256}),), arch="gfx950")
    with job(twin) as sandbox:
        _, table = finished(tune.tune(sandbox, told, build=BUILD, clock=twin.clock, timeout_s=7200))
    assert untuned(boots(twin, model, tables=(table,), flags=())).coverage == 0.0


def test_a_named_table_replaces_shipped_ones(tmp_path):
    node = make(tmp_path, tuned=Tuned(shipped=True))
    model = tmp_path / "models" / WORLD.model.id
    assert untuned(boots(node, model, flags=())).coverage == 1.0
    told = Untuned(shapes=(A.model_copy(update={"inter_dim": 256}),), arch="gfx950")
    with job(node) as sandbox:
        _, table = finished(tune.tune(sandbox, told, build=BUILD, clock=node.clock, timeout_s=7200))
    assert untuned(boots(node, model, tables=(table,), flags=())).coverage == 0.0, "the trap is there"


IMAGE = "aiter/aiter/configs/model_configs/glm5_fp4_tuned_fmoe.csv"


def with_image(folder, *tables):
    build = WORLD.builds[0]
    tree = {**build.tree, **{IMAGE.replace("glm5", f"m{n}"): text for n, text in enumerate(tables)}}
    return make(folder, builds=(build.model_copy(update={"tree": tree}),))


def rows_of(shapes):
    kinds = "0,0,32,0,1.0,k,0.0,1.0,k,0.0,2.0,0,0,0,0,0,"
    return "\n".join([HEADER, *(f"gfx950,256,{s.row()}{kinds[3:]}" for s in shapes)]) + "\n"


def test_the_images_tables_are_merged_in_and_what_they_hold_is_not_tuned_again(tmp_path):
    told = Untuned(shapes=(A,), arch="gfx950")
    other = A.model_copy(update={"model_dim": 2048})
    node = with_image(tmp_path, rows_of(told.wanted()[:11]), rows_of([other]))
    before = node.clock.now()
    with job(node) as sandbox:
        _, table = finished(tune.tune(sandbox, told, build=BUILD, clock=node.clock, timeout_s=7200))
    assert node.clock.now() - before < 600, "four rows, not fifteen"
    assert len(table.shapes) == 4 and coverage([*told.wanted(), other], [table.text], arch="gfx950") == 1.0
    node = with_image(tmp_path / "2", rows_of(told.wanted()))
    with job(node) as sandbox, pytest.raises(Refused, match="already"):
        finished(tune.tune(sandbox, told, build=BUILD, clock=node.clock, timeout_s=7200))
    with job(node) as sandbox, pytest.raises(Refused, match="nothing to tune"):
        finished(tune.tune(sandbox, untuned(b""), build=BUILD, clock=node.clock, timeout_s=7200))


def test_s56_rows_that_were_ready_when_time_was_over_are_kept_and_the_rest_goes_on_from_them(twin):
    told = Untuned(shapes=(A,), arch="gfx950")
    before = twin.clock.now()
    with job(twin) as sandbox:
        facts, table = finished(tune.tune(sandbox, told, build=BUILD, clock=twin.clock, timeout_s=500))
    assert twin.clock.now() - before < 560, "the limit holds"
    assert 3 <= table.rows < 8 and f"{table.rows / 15:.0%}" in table.why
    kept = next(f.data for f in facts if isinstance(f, ArtifactKept) and f.name == "tuned.csv").decode()
    before = twin.clock.now()
    with job(twin) as sandbox:
        _, whole = finished(
            tune.tune(sandbox, told, build=BUILD, clock=twin.clock, timeout_s=7200, earlier=kept)
        )  # fmt: skip
    assert whole.rows == 15 and twin.clock.now() - before < 1300, "what was there was not made again"


def test_s27_a_lock_that_a_killed_tuner_left_is_removed_first(twin, tmp_path):
    lock = tmp_path / "twin" / "caches" / "jit" / "lock_module_moe"
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.touch()
    told = Untuned(shapes=(A,), arch="gfx950")
    with job(twin) as sandbox:
        facts, table = finished(tune.tune(sandbox, told, build=BUILD, clock=twin.clock, timeout_s=900))
    assert table.rows > 5 and not lock.exists()
    assert any("removed 1 locks" in f.text for f in facts if isinstance(f, Progress))


def test_a_tuner_that_dies_is_started_again_for_what_is_missing_and_one_that_gives_nothing_is_told(tmp_path, twin):
    told = Untuned(shapes=(A,), arch="gfx950")
    starts = []

    def dies(ctx):
        starts.append(ctx.argv)
        for number, step in enumerate(tuner.tune(node.site, ctx)):
            yield step
            if number > 4 and len(starts) == 1:
                return

    script = f"python3 /sgl-workspace/aiter/{tuner.SCRIPT}"
    node = TwinNode("twin-1", tmp_path / "twin", WORLD, cancel=lambda: False, extra={script: dies})
    with job(node) as sandbox:
        _, table = finished(tune.tune(sandbox, told, build=BUILD, clock=node.clock, timeout_s=7200))
    assert len(starts) == 2 and table.rows == 15
    broken = TwinNode("twin-2", tmp_path / "twin", WORLD, cancel=lambda: False, extra={script: nothing})
    with job(broken) as sandbox, pytest.raises(CandidateFailed, match="no row that holds: no GPU") as failed:
        finished(tune.tune(sandbox, told, build=BUILD, clock=broken.clock, timeout_s=7200))
    assert failed.value.failure == "bad_patch"


def nothing(ctx):
    from day0.sandboxes.simulated.steps import Exit, Out, Wait

    yield Wait(1.0)
    yield Out(b"no GPU is visible\n")
    yield Exit(1)


def test_a_sandbox_without_engine_source_takes_no_patch(twin, tmp_path):
    mine = made(twin, "rocm-guard")
    bare = ScriptedNode("bare", tmp_path, {}, cancel=lambda: False)
    with bare.open(SandboxSpec("server", "", "r1.1")) as sandbox:
        source = patch.source_of(sandbox)
        assert source(next(iter(mine.after))) is None and source("../../etc/passwd") is None
        with pytest.raises(Refused):
            patch.made("rocm-guard", source, build="b", config={})
        with pytest.raises(CandidateFailed, match="not in this build"):
            patch.dress(sandbox, (mine,), (), {})


def test_s43_what_does_not_read_back_as_written_is_noticed(twin):
    mine = made(twin, "rocm-guard")
    with job(twin, "server") as sandbox:
        real = sandbox.read
        sandbox.read = lambda path, most: real(path, most).replace(b"#else", b"#elif")
        with pytest.raises(Infrastructure, match="does not read back"):
            patch.dress(sandbox, (mine,), (), {})


def test_a_patch_changes_its_own_sandbox_alone(twin):
    mine = made(twin, "rocm-guard")
    (path,) = mine.after
    with job(twin, "server") as one, job(twin, "server") as other:
        patch.dress(one, (mine,), (), {})
        texts = [patch.source_of(sandbox)(path) for sandbox in (one, other)]
    assert "USE_ROCM" in texts[0] and "USE_ROCM" not in texts[1] == WORLD.builds[0].tree[path]
