"""Engine source in git worktrees: one for each attempt, with its own index and lock, and nothing left of it."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from day0.runs.errors import Infrastructure
from day0.tools import worktree
from day0.tools.patch_git import DoesNotApply, run

PATH = "sglang/python/sglang/srt/a.py"
FILES = {PATH: "".join(f"x{n} = {n}\n" for n in range(9))}


WHERE = r"failed: \S+/a\.py:2: it looks for 'x1 = 1 \| .* \| x4 = 4', and there stands 'x1 = 1 \| .* \| x4 = 40'"


def diff(number):
    return worktree.difference(FILES, {PATH: FILES[PATH].replace("x4 = 4", f"x4 = {number}")})


def trees():
    listed = run(worktree.repository().git, "worktree", "list", "--porcelain")
    return [row for row in listed.splitlines() if row.startswith("worktree ")]


def test_s29_two_attempts_never_share_a_source_tree_nor_wait_for_each_others_lock():
    with worktree.opened(FILES) as one, worktree.opened(FILES) as other:
        assert one.folder != other.folder and len(trees()) == 3
        (one.own / "index.lock").touch()  # as a git that is at work, or was killed, leaves it
        with pytest.raises(Infrastructure, match=r"index\.lock"):
            one.keep("a change")
        assert "x4 = 40" in other.apply(diff(40))[PATH]
        other.keep("a change")
        assert one.texts() == FILES
    assert len(trees()) == 1 and not one.folder.exists() and not other.folder.exists()


def test_s29_attempts_of_several_nodes_at_once_each_see_their_own_patch():
    start = Barrier(4)

    def attempt(number):
        start.wait()
        return [worktree.apply(diff(number), FILES)[PATH] for _ in range(3)]

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(attempt, range(100, 104)))
    assert found == [[FILES[PATH].replace("x4 = 4", f"x4 = {n}")] * 3 for n in range(100, 104)]
    assert len(trees()) == 1


def test_a_patch_is_a_commit_of_its_attempt_and_what_was_tried_is_taken_back():
    with worktree.opened(FILES) as tree:
        tree.apply(diff(40))
        tree.keep("four is forty")
        tree.put({PATH: "", "new.py": "x = 1\n"})
        tree.back()
        assert tree.texts() == worktree.apply(diff(40), FILES)
        with pytest.raises(DoesNotApply, match=WHERE):
            tree.apply(diff(41))


def test_what_a_killed_process_left_is_removed_and_what_a_living_one_has_stays(tmp_path):
    make = (
        "import os, pathlib, sys; from day0.tools.worktree import Repository as R; r = R(pathlib.Path(sys.argv[1])); "
    )
    subprocess.run([sys.executable, "-c", make + "os._exit(0)", str(tmp_path)], check=True)
    (left,) = tmp_path.iterdir()
    subprocess.run([sys.executable, "-c", make, str(tmp_path)], check=True)
    assert list(tmp_path.iterdir()) == [], f"{left.name} was of a process that is gone, and the next ended in order"
    mine = worktree.Repository(tmp_path)
    worktree.remove_left(tmp_path)
    assert mine.store.is_dir()
    mine.close()
    assert list(tmp_path.iterdir()) == []
