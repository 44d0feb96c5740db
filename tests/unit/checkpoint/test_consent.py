"""Consent to code of a checkpoint: asked for by the refusal, for one exact revision, kept with who and when."""

import json
import os
import re
import sys
from contextlib import closing

import pytest
from day0.agent import consenting, finding
from day0.agent.settings import load
from day0.runs import documents
from day0.runs.errors import UserError
from day0.runs.ledger import Ledger
from day0.tools.hub import code_of, look, resolve

from tests.unit.checkpoint.hub_server import HubServer, Model
from tests.unit.checkpoint.test_hub import CONFIG, FIRST

CONTAINERS, BARE = documents.target("cpu-docker"), documents.target("cpu")
BRINGS = CONFIG[:-1] + b', "auto_map": {"AutoModel": "modeling_x.X"}}'
PICKLED = "some-org/pickled"


@pytest.fixture
def settings(tmp_path, monkeypatch):
    for name in [name for name in os.environ if name.startswith("DAY0_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("DAY0_HOME", str(tmp_path / "home"))
    return load()


@pytest.fixture
def day0(settings, monkeypatch, capsys):
    from day0.agent.cli import main

    def call(line):
        monkeypatch.setattr(sys, "argv", ["day0", *line.split()])
        try:
            main()
            code = 0
        except SystemExit as ended:
            code = ended.code or 0
        out = capsys.readouterr()
        return code, out.out + out.err

    return call


def folder(place, **files):
    place.mkdir()
    for name, data in {"config.json": CONFIG, "tokenizer.json": b"{}", **files}.items():
        (place / name).write_bytes(data)
    return str(place)


def asked(error):
    """The command that a refusal names."""
    return re.search(r"`day0 (consent \S+ --[a-z-]+)`", str(error.value))[1]


def held(settings):
    with closing(Ledger.open(settings.database)) as ledger:
        return ledger.consents()


def test_s61_pickled_weights_load_after_a_person_consented_to_exactly_that_revision(settings, day0, tmp_path):
    model = folder(tmp_path / "m", **{"pytorch_model.bin": FIRST})
    with pytest.raises(UserError, match="only pickled weights") as refused:
        finding.local(model, CONTAINERS, settings)
    command = asked(refused)
    assert command.startswith(f"consent {model}@sha256:")
    code, said = day0(f"{command} --reason read")
    assert code == 0 and "and of no other revision" in said and "pytorch_model.bin" in said
    found = finding.local(model, CONTAINERS, settings)
    assert found.consents == ("pickle",) and found.facts.weight_bytes == len(FIRST)
    (kept,) = held(settings)
    assert (kept.revision, kept.files, kept.reason) == (found.revision, ("pytorch_model.bin",), "read")
    assert kept.who == consenting.who() and kept.at.tzinfo is not None
    with pytest.raises(UserError, match="in a container without network only"):
        finding.local(model, BARE, settings)
    (tmp_path / "m/pytorch_model.bin").write_bytes(FIRST + b"x")
    with pytest.raises(UserError) as again:
        finding.local(model, CONTAINERS, settings)
    assert asked(again) != command
    assert day0(command)[0] == 2, "a command copied from an older refusal is about an older content"


def test_s61_a_consent_that_was_taken_back_counts_no_more(settings, day0, tmp_path):
    model = folder(tmp_path / "m", **{"pytorch_model.bin": FIRST})
    assert day0(f"consent {model} --pickle")[0] == 0
    found = finding.local(model, CONTAINERS, settings)
    with closing(Ledger.open(settings.database)) as ledger:
        consenting.standing(ledger, model, found.revision, found.consents)
        assert day0(f"consent {model} --pickle --withdraw")[0] == 0
        with pytest.raises(
            UserError, match=r"needs a person's consent to its pickled weights: `day0 consent \S+ --pickle`"
        ):
            consenting.standing(ledger, model, found.revision, found.consents)
    with pytest.raises(UserError, match="only pickled weights"):
        look(model, settings.home, consented=consenting.Asking(settings).pickle)
    told = json.loads(day0("consent --json")[1])
    assert [c["given"] for c in told] == [True, False]


def test_s61_pickled_weights_of_the_hub_are_fetched_by_the_commit_that_was_consented_to(tmp_path):
    files = {"config.json": CONFIG, "pytorch_model.bin": FIRST, "training_args.bin": b"x"}
    with HubServer({PICKLED: Model(files)}) as hub:
        with pytest.raises(UserError) as refused:
            look(PICKLED, tmp_path, endpoint=hub.url)
        assert asked(refused) == f"consent {PICKLED}@{'a' * 40} --pickle"
        assert code_of(PICKLED, tmp_path, endpoint=hub.url).pickled == ("pytorch_model.bin", "training_args.bin")
        assert not hub.gets("/cdn/"), "nothing is fetched to be asked about"
        given = ("a" * 40).__eq__
        place = resolve(PICKLED, tmp_path, endpoint=hub.url, consented=given)
        assert (place / "pytorch_model.bin").read_bytes() == FIRST
        hub.models[PICKLED] = Model(files, commit="b" * 40)
        with pytest.raises(UserError, match="b" * 40):
            resolve(PICKLED, tmp_path, endpoint=hub.url, consented=given)
    nowhere = "http://127.0.0.1:1"
    assert resolve(PICKLED, tmp_path, endpoint=nowhere, consented=given) == place
    with pytest.raises(UserError, match="day0 consent"):
        resolve(PICKLED, tmp_path, endpoint=nowhere)


def test_s60_code_of_a_checkpoint_runs_after_consent_and_only_where_there_are_containers(settings, day0, tmp_path):
    files = {"config.json": BRINGS, "modeling_x.py": b"1/0\n", "model.safetensors": b"x"}
    model = folder(tmp_path / "m", **files)
    before = finding.local(model, CONTAINERS, settings)
    assert before.consents == () and any("`day0 consent MODEL --remote-code`" in w for w in before.facts.warnings)
    code, said = day0(f"consent {model} --remote-code")
    assert code == 0 and "modeling_x.py" in said and "config.json" not in said
    assert finding.local(model, CONTAINERS, settings).consents == ("remote-code",)
    assert finding.local(model, BARE, settings).consents == (), "this machine's own network is no wall"
    (tmp_path / "m/modeling_x.py").write_bytes(b"2/0\n")
    assert finding.local(model, CONTAINERS, settings).consents == ()


def test_there_is_no_consent_to_what_a_model_does_not_bring(settings, day0, tmp_path):
    model = folder(tmp_path / "m", **{"model.safetensors": b"x", "extra.bin": b"x"})
    for kind in ("remote-code", "pickle"):
        code, said = day0(f"consent {model} --{kind}")
        assert code == 2 and "nothing to consent to" in said
    assert day0(f"consent {model}")[0] == 2 and held(settings) == ()
    assert "nobody" in day0("consent")[1]
