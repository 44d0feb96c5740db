"""Models from a hub: what is fetched when, and every way in which a hub refuses, against a hub on this machine."""

import json

import pytest
from day0.runs.errors import DiskFull, UserError
from day0.tools import hub_fetch
from day0.tools.hub import look, resolve
from day0.tools.hub_fetch import Hub
from day0.tools.survey import survey

from tests.unit.checkpoint.hub_server import HubServer, Model

ID = "some-org/Tiny-Llama"
CONFIG = json.dumps({
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 128, "max_position_embeddings": 2048,
}).encode()  # fmt: skip
INDEX = json.dumps({"metadata": {"total_size": 6000}, "weight_map": {"a": "model-00001-of-00002.safetensors"}}).encode()
FIRST, SECOND = b"\x08" + bytes(range(200)) * 15, b"\x09" + bytes(range(200)) * 15
FILES = {
    "config.json": CONFIG, "tokenizer.json": b"{}", "model.safetensors.index.json": INDEX, "README.md": b"# card",
    "model-00001-of-00002.safetensors": FIRST, "model-00002-of-00002.safetensors": SECOND, "modeling_x.py": b"1/0\n",
}  # fmt: skip


@pytest.fixture
def hub():
    with HubServer({ID: Model(dict(FILES))}) as server:
        yield server


def names(folder):
    return sorted(p.name for p in folder.iterdir())


def test_configuration_and_index_come_first_and_weights_when_they_are_needed(hub, tmp_path):
    folder = look(ID, tmp_path, endpoint=hub.url)
    assert folder.name == "a" * 40 and not [n for n in names(folder) if n.endswith(".safetensors")]
    assert survey(folder, model=ID).layers == 2 and not hub.gets("/cdn/")
    said = []
    whole = resolve(f"{ID}@{'a' * 40}", tmp_path, endpoint=hub.url, progress=said.append)
    assert whole == folder and names(folder) == sorted(set(FILES) - {"README.md"})
    assert (folder / "model-00002-of-00002.safetensors").read_bytes() == SECOND
    assert "fetched" in said[-1] and ID in said[-1]
    assert not (folder / "config.json").resolve().stat().st_mode & 0o222, "read-only from now on"
    before = len(hub.gets("/cdn/"))
    assert resolve(ID, tmp_path, endpoint=hub.url) == folder
    assert len(hub.gets("/cdn/")) == before == 2, "what is here is not fetched again"


def test_a_download_that_breaks_off_goes_on_where_it_stopped(hub, tmp_path):
    large = FIRST + bytes(11 << 20)  # more than the client writes at once
    hub.models[ID].files["model-00001-of-00002.safetensors"] = large
    hub.breaks["model-00001-of-00002.safetensors"] = len(large) - 1000
    folder = resolve(ID, tmp_path, endpoint=hub.url)
    assert (folder / "model-00001-of-00002.safetensors").read_bytes() == large
    assert [r[3] for r in hub.gets("/cdn/model-00001")] == ["", f"bytes={10 << 20}-"]


def test_without_the_hub_what_was_fetched_whole_still_serves_and_a_part_of_it_does_not(hub, tmp_path):
    folder = resolve(ID, tmp_path, endpoint=hub.url)
    nowhere = "http://127.0.0.1:1"
    assert resolve(ID, tmp_path, endpoint=nowhere) == folder
    assert resolve(f"{ID}@{'a' * 40}", tmp_path, endpoint=nowhere) == folder
    with pytest.raises(UserError, match="was not fetched before"):
        resolve(f"{ID}@{'b' * 40}", tmp_path, endpoint=nowhere)
    (folder / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(UserError, match=r"only in part \(5 of 6 files\)"):
        resolve(ID, tmp_path, endpoint=nowhere)
    assert resolve(ID, tmp_path, endpoint=hub.url) == folder, "and the hub gives what is missing"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("some-org/none", "the hub has no model 'some-org/none'"),
        ("some-org/gated", "some-org/gated is gated: accept its licence on the hub and set HF_TOKEN"),
        ("some-org/old-name", f"some-org/old-name was renamed on the hub to {ID}"),
        (f"{ID}@v9", "has no revision 'v9'"),
        ("some-org/pickled", "only pickled weights"),
        ("some-org/nothing", "has no config.json"),
    ],
)
def test_s61_what_the_hub_does_not_give_is_one_sentence(hub, tmp_path, asked, said):
    hub.models["some-org/gated"] = Model(dict(FILES), gated=True)
    hub.models["some-org/pickled"] = Model({"config.json": CONFIG, "pytorch_model.bin": FIRST})
    hub.models["some-org/nothing"] = Model({"README.md": b"x"})
    hub.renamed["some-org/old-name"] = ID
    for find in (look, resolve):
        with pytest.raises(UserError) as error:
            find(asked, tmp_path, endpoint=hub.url)
        assert said in str(error.value) and "\n" not in str(error.value)
    assert not hub.gets("/cdn/")


def test_a_file_with_another_hash_than_the_hubs_is_removed(hub, tmp_path):
    hub.models[ID] = Model(dict(FILES), lies=frozenset({"model-00002-of-00002.safetensors"}))
    with pytest.raises(UserError, match="does not have the hash that the hub gives"):
        resolve(ID, tmp_path, endpoint=hub.url)
    assert not list(tmp_path.rglob("model-00002*"))


def test_s22_too_little_room_is_said_with_the_size_before_anything_large_is_fetched(hub, tmp_path):
    class Huge(Hub):
        def listing(self, name, revision=""):
            found = super().listing(name, revision)
            large = tuple(
                f.model_copy(update={"size": 10**18}) if f.name.endswith(".safetensors") else f for f in found.files
            )
            return found.model_copy(update={"files": large})

    place = Huge(tmp_path, hub.url)
    with pytest.raises(DiskFull, match=r"free, some-org/Tiny-Llama needs 2000000000.0 GB more"):
        place.weigh(place.listing(ID))
    assert not hub.gets("/cdn/")


def test_s58_the_token_goes_to_the_hub_alone(hub, tmp_path):
    place = Hub(tmp_path, hub.url, token="hf_secretsecret")
    place.weigh(place.listing(ID))
    assert any("hf_secretsecret" in r[4] for r in hub.requests)
    assert not [r for r in hub.requests if r[2].startswith("/cdn/") and r[4]], "not to the store behind it"
    assert "hf_secretsecret" not in repr(place)
    assert not [p for p in tmp_path.rglob("*") if p.is_file() and b"secretsecret" in p.read_bytes()]


def test_s61_a_folder_of_pickled_weights_alone_is_refused(tmp_path):
    (tmp_path / "config.json").write_bytes(CONFIG)
    (tmp_path / "pytorch_model.bin").write_bytes(b"x")
    with pytest.raises(UserError, match="only pickled weights"):
        look(str(tmp_path), tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"x")
    assert look(str(tmp_path), tmp_path) == tmp_path


def test_names_that_would_leave_the_folder_are_not_taken(hub, tmp_path):
    hub.models[ID] = Model({**FILES, "../evil.json": b"{}", ".hidden.json": b"{}"})
    listing = Hub(tmp_path, hub.url).listing(ID)
    assert not [f for f in listing.files if "evil" in f.name or "hidden" in f.name]
    assert hub_fetch.gb(5_000_000) == "5.0 MB" and hub_fetch.gb(399_000_000_000) == "399.0 GB"


def test_s60_a_run_asks_for_a_hub_model_by_its_commit_and_fetches_its_weights_when_it_begins(
    hub, tmp_path, monkeypatch
):
    from day0.agent import compose, finding
    from day0.agent.settings import Settings
    from day0.runs import documents
    from day0.runs.schema import Run, RunRequest

    # what HF_ENDPOINT says when the client is imported
    files = "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", hub.url)
    monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", hub.url + files)
    settings, target = Settings(home=tmp_path), documents.target("cpu")
    found = finding.local(ID, target, settings)
    assert (found.model, found.revision, found.facts.layers) == (ID, "a" * 40, 2)
    assert not hub.gets("/cdn/"), "no weights before a run begins"
    work = (documents.workload("cpu-chat"),)
    request = RunRequest(model=found.model, revision=found.revision, target=target, workloads=work)
    said = []
    folder = compose.model_folder(Run.model_construct(id="r1", request=request), settings, said.append)
    assert (folder / "model-00001-of-00002.safetensors").read_bytes() == FIRST and said
    brings = {**FILES, "config.json": CONFIG[:-1] + b', "auto_map": {"AutoModel": "modeling_x.X"}}'}
    hub.models[ID] = Model(brings, commit="b" * 40)
    again = finding.local(ID, target, settings)
    assert again.revision == "b" * 40, "another commit is another run"
    assert any("trust_remote_code needs a person's consent" in w for w in again.facts.warnings)
