import shutil
import sys
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from day0.runs.evidence import Evidence, Row
from day0.sandboxes.redact import Redactor
from day0.tools import patch, publish, publish_git
from day0.tools.codemods.base import Files
from day0.tools.forge.files import FileForge
from day0.tools.forge.pace import Pace
from git import Repo

sys.path.insert(0, str(Path(__file__).parents[1] / "patches"))
import engine

WHO = publish_git.Person("Ada Person", "ada@example.org")
AT = datetime(2026, 12, 1, 10, 0, tzinfo=UTC)
EVIDENCE = Evidence(
    model="org/model@r1", target="mi355x-twin", simulated=True, attempts=("r1.3",), engaged=("no exclude entry",),
    rows=(Row(what="a server", before="fails at boot: x", after="kept"),),
)  # fmt: skip


class Clock:
    """Wall time that passes when somebody waits."""

    def __init__(self):
        self.time, self.slept = 1000.0, []

    def now(self):
        return self.time

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.time += seconds


class Staging:
    """A bare repository with the engine's source on main, and people who work in it."""

    def __init__(self, folder):
        self.folder, self.clock = folder / "sglang.git", Clock()
        self.work = Repo(folder / "work")
        self.work.remote("origin").set_url(self.folder.as_uri())

    @staticmethod
    def begin(folder, tree):
        bare = Repo.init(folder / "sglang.git", bare=True, initial_branch="main")
        bare.config_writer().set_value("receive", "autogc", "false").release()
        work = Repo.init(folder / "work", initial_branch="main")
        work.config_writer().set_value("user", "name", "Eve").set_value("user", "email", "eve@example.org").release()
        work.create_remote("origin", "file:///nowhere")
        Staging(folder).commit({path.removeprefix("sglang/"): text for path, text in tree.items()})

    def commit(self, files, branch="main"):
        for path, text in files.items():
            file = Path(self.work.working_dir, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        self.work.git.add("--all")
        self.work.git.commit("--quiet", "-m", "work")
        self.work.git.push("--quiet", "origin", f"HEAD:{branch}")
        return self.work.head.commit.hexsha

    def on(self, branch):
        self.work.git.fetch("--quiet", "origin")
        self.work.git.checkout("--quiet", "--detach", f"origin/{branch}")

    @property
    def bare(self):
        return Repo(self.folder)

    def branches(self):
        return {head.name: head.commit for head in self.bare.heads}

    @contextmanager
    def opened(self):
        url = self.folder.as_uri()
        forge = FileForge(self.folder, Pace(self.clock))
        with publish_git.opened(publish_git.Place(url, "main", url)) as repository:
            yield repository, forge

    def publish(self, order, *, redact=None, seen=None):
        with self.opened() as (repository, forge):
            steps = publish.publish(order, repository, forge, who=WHO, base="main", redact=redact or Redactor())
            while True:
                try:
                    pushed = next(steps)
                    if seen is not None:
                        seen.append(pushed)
                except StopIteration as stop:
                    return stop.value


def made(name, tree=None, **changes):
    why = engine.EVIDENCE if name == "rocm-guard" else "no exclude entry for model.eh_proj"
    found = patch.made(name, Files(tree or engine.TREE), build="image:1", config=engine.config(), why=why)
    return found.model_copy(update={"upstream": "", **changes})


def order(of, **changes):
    return publish.Order(patch=of, approved=of.digest(), at=AT, evidence=(EVIDENCE,), **changes)


@pytest.fixture(scope="session")
def begun(tmp_path_factory):
    folder = tmp_path_factory.mktemp("staging")
    Staging.begin(folder, engine.TREE)
    return folder


@pytest.fixture
def staging(begun, tmp_path):
    shutil.copytree(begun, tmp_path / "at")
    return Staging(tmp_path / "at")
