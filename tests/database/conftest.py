"""One ledger per database: SQLite, and PostgreSQL by DAY0_TEST_POSTGRES_URL or from a throw-away cluster."""

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from day0.runs.candidate import Candidate
from day0.runs.facts import BootEnded, BootStarted, Knee, KneeFound, LoadPoint, PointMeasured, Rung
from day0.runs.ledger import Ledger
from day0.runs.schema import RunRequest
from day0.runs.workload import MeasureRules, Target, Workload
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.pool import NullPool

BINARIES = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: int(folder.parent.name))


class Samples:
    """Values that tests put into a ledger."""

    target = Target(
        name="cpu",
        kind="local",
        accelerator="cpu",
        stall_s=20,
        boot_stall_s=20,
        boot_cap_s=240,
        measure=MeasureRules(point_s=8, min_requests=8, p95_multiples=0, max_points=5, max_pairs=4, stability_s=0),
        workload="chat",
    )
    workload = Workload(name="chat", input_tokens=320, output_tokens=48)

    def request(self, **change):
        given = {"model": "tiny", "revision": "r1", "target": self.target, "workloads": (self.workload,)}
        return RunRequest(**(given | change))

    def candidate(self, number=0):
        return Candidate(engine="sglang", build="b", model="tiny", revision="r1", flags={"page-size": number})

    def point(self, boot=1, rate=1.0):
        counts = {"window_s": 8, "offered": 8, "completed": 8, "failed": 0, "success_share": 1}
        speeds = {"output_tok_s": 48 * rate, "total_tok_s": 368 * rate}
        point = LoadPoint(workload="chat", rate_rps=rate, seed=1, steady=True, meets_slo=True, **counts, **speeds)
        return PointMeasured(boot=boot, rung=Rung.MEASURE, point=point)

    def knee(self, boot=1, rate=1.0):
        knee = Knee(workload="chat", rate_rps=rate, goodput_tok_s=48 * rate, passed_rps=rate, failed_rps=None)
        return KneeFound(boot=boot, rung=Rung.MEASURE, knee=knee)

    def started(self, boot=1):
        return BootStarted(boot=boot, argv=("python", "-m", "sglang.launch_server", "--port", "31234"))

    def ended(self, boot=1, reason="stopped"):
        return BootEnded(boot=boot, reason=reason, exit_code=0, node_s=60)


class Clock:
    """The ledger's wall clock, moved by hand: a second for each look."""

    def __init__(self):
        self.at = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self):
        self.at += timedelta(seconds=1)
        return self.at


@pytest.fixture
def make():
    return Samples()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(scope="session")
def postgres():
    given = os.environ.get("DAY0_TEST_POSTGRES_URL")
    if given:
        yield given
        return
    if not BINARIES:
        pytest.skip("no PostgreSQL here: neither DAY0_TEST_POSTGRES_URL nor /usr/lib/postgresql/*/bin")
    folder = Path(tempfile.mkdtemp(prefix="day0-pg-", dir="/tmp"))
    try:
        with _cluster(folder):
            yield f"postgresql://postgres@/postgres?host={folder}"
    finally:
        shutil.rmtree(folder)


# The server is nobody's child and ends when the pipe on stdin does: when this test run ends or is killed.
GUARDED = 'exec 3<&0; ( "$@" </dev/null & server=$!; read -r _ <&3; kill -QUIT $server; wait $server ) &'


@contextmanager
def _cluster(folder):
    as_user = []
    if os.geteuid() == 0:
        try:
            user = pwd.getpwnam("postgres")
        except KeyError:
            pytest.skip("no user postgres, and PostgreSQL refuses to run as root")
        os.chown(folder, user.pw_uid, user.pw_gid)
        as_user = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    data, log = folder / "data", folder / "log"
    made = [*as_user, BINARIES[-1] / "initdb", "-D", data, "-A", "trust", "-U", "postgres", "-E", "UTF8", "--no-sync"]
    subprocess.run([*made, "--no-instructions"], check=True, stdout=subprocess.DEVNULL, cwd=folder)
    options = [
        "-c",
        "listen_addresses=",
        "-k",
        folder,
        "-F",
        "-c",
        "full_page_writes=off",
        "-c",
        "synchronous_commit=off",
    ]
    line = ["sh", "-c", GUARDED, "sh", *as_user, BINARIES[-1] / "postgres", "-D", data, *options]
    with log.open("wb") as output:
        guard = subprocess.Popen(line, cwd=folder, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT)
    guard.wait(10)
    try:
        if not _until(lambda: _answers(folder)):
            pytest.fail(f"PostgreSQL did not start: {log.read_text()[-2000:]}")
        yield
    finally:
        guard.stdin.close()
        assert _until(lambda: not (data / "postmaster.pid").exists() and not _answers(folder))


def _answers(folder):
    return subprocess.run([BINARIES[-1] / "pg_isready", "-q", "-h", folder], check=False).returncode == 0


def _until(holds, wait_s=20):
    deadline = time.monotonic() + wait_s
    while not (held := holds()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return held


@pytest.fixture(params=["sqlite", "postgresql"])
def backend(request):
    return request.param


@contextmanager
def schema(server):
    """A PostgreSQL URL with a schema of its own: a whole database costs 0.2 s."""
    parsed = make_url(server).set(drivername="postgresql+psycopg")
    engine = create_engine(parsed, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    name = f"day0_test_{os.getpid()}_{time.monotonic_ns()}"
    with engine.connect() as db:
        db.execute(text(f"CREATE SCHEMA {name}"))
    own = parsed.set(drivername="postgresql").update_query_dict({"options": f"-csearch_path={name}"})
    yield own.render_as_string(hide_password=False)
    with engine.connect() as db:
        db.execute(text(f"DROP SCHEMA {name} CASCADE"))


@pytest.fixture
def url(request, backend, tmp_path):
    """The URL of an empty database."""
    if backend == "sqlite":
        yield f"sqlite:///{tmp_path}/empty.db"
    else:
        with schema(request.getfixturevalue("postgres")) as own:
            yield own


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory):
    file = tmp_path_factory.mktemp("migrated") / "ledger.db"
    Ledger.open(f"sqlite:///{file}").close()
    return file


@pytest.fixture(scope="session")
def migrated_schema(postgres):
    with schema(postgres) as own:
        Ledger.open(own).close()
        yield own


@pytest.fixture
def home(request, backend, tmp_path):
    """The URL of a database with the present schema and no rows: migrated once, since that costs 0.1 s."""
    if backend == "sqlite":
        shutil.copy(request.getfixturevalue("migrated_file"), tmp_path / "ledger.db")
        yield f"sqlite:///{tmp_path}/ledger.db"
        return
    own = request.getfixturevalue("migrated_schema")
    yield own
    engine = create_engine(make_url(own).set(drivername="postgresql+psycopg"), poolclass=NullPool)
    with engine.begin() as db:
        db.execute(text("TRUNCATE runs, attempts, events, knowledge, patches"))


@pytest.fixture
def ledger(home, clock):
    opened = Ledger.open(home, now=clock)
    yield opened
    opened.close()


@pytest.fixture
def python():
    """Starts Python programs; what is left of them at the end of a test is killed."""
    started = []

    def start(program, *arguments):
        line = [sys.executable, "-W", "error", "-c", program, *map(str, arguments)]
        process = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()
