import os

import pytest
from day0.runs.errors import UserError
from day0.tools.forecast import source
from day0.tools.hub import resolve
from day0.tools.revision import file_hashes, revision_of


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "sub" / "w.safetensors").write_text("weights")
    return folder


def test_the_revision_is_of_names_and_contents(model, tmp_path):
    first = revision_of(model, tmp_path)
    assert first.startswith("sha256:")
    assert revision_of(model) == first
    (model / "sub" / "w.safetensors").write_text("weightz")
    assert revision_of(model, tmp_path) != first
    (model / "sub" / "w.safetensors").write_text("weights")
    assert revision_of(model, tmp_path) == first
    (model / "sub" / "w.safetensors").rename(model / "sub" / "v.safetensors")
    assert revision_of(model, tmp_path) != first


def test_hashes_are_remembered_outside_the_model_folder(model, tmp_path):
    home = tmp_path / "home"
    before = file_hashes(model, home)
    file = model / "sub" / "w.safetensors"
    stat = file.stat()
    os.truncate(file, 0)
    file.write_text("WEIGHTS")
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert file_hashes(model, home) == before  # same size, time and place: taken from memory
    assert file_hashes(model) != before
    assert sorted(p.name for p in model.iterdir()) == ["config.json", "sub"]


def test_a_damaged_memory_only_costs_time(model, tmp_path):
    first = revision_of(model, tmp_path)
    for side in (tmp_path / "models" / "hashes").iterdir():
        side.write_text("{")
    assert revision_of(model, tmp_path) == first


def test_a_fetched_model_is_known_by_its_commit(tmp_path):
    folder = tmp_path / "snapshots" / ("a" * 40)
    folder.mkdir(parents=True)
    assert revision_of(folder) == "a" * 40


def test_no_folder_is_the_users_mistake(tmp_path):
    with pytest.raises(UserError, match="is not a folder"):
        revision_of(tmp_path / "none")


def test_a_folder_is_taken_as_it_is(model, tmp_path):
    assert resolve(str(model), tmp_path) == model


@pytest.mark.parametrize(
    "name",
    ["x; rm -rf /", "--host", "-x/y", "../../nowhere", "a/../b", "", " ", "a/b/c", "org/na me", "a\0b",
     "/nowhere/at/all", "org/name@rev;x", "org/name@../x", "onlyname", "$(x)/y", "org/name\n"],
)  # fmt: skip
def test_s66_what_is_neither_folder_nor_id_is_refused(tmp_path, name):
    with pytest.raises(UserError) as error:
        resolve(name, tmp_path)
    assert "\n" not in str(error.value)
    assert not list(tmp_path.iterdir())


def test_the_hub_out_of_reach_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match="give a model folder"):
        resolve("some-org/some-model", tmp_path)


@pytest.mark.parametrize("find", [resolve, lambda name, _: source.find(name)])
def test_no_route_to_the_hub_is_one_sentence_whatever_its_client_raises(tmp_path, monkeypatch, find):
    class ConnectError(Exception):
        """Of an HTTP library that day0 does not know."""

    def no_route(*_, **__):
        raise ConnectError("Name or service not known")

    monkeypatch.setattr("huggingface_hub.HfApi.model_info", no_route)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match="the hub can't be reached"):
        find("some-org/some-model", tmp_path)


@pytest.mark.parametrize("name", ["a" * 5000, "~nobody-has-this-name/x"])
def test_a_name_that_no_file_system_takes(tmp_path, name):
    for find in (lambda: resolve(name, tmp_path), lambda: source.find(name)):
        with pytest.raises(UserError, match="is no folder"):
            find()
