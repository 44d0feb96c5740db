from __future__ import annotations

import base64
import json
from urllib.parse import quote

import pytest
from day0.sandboxes.redact import MASK, SHORTEST, Redactor, forms, looks_secret
from hypothesis import given
from hypothesis import strategies as st

SECRET = "hf_pässword/with+odd chars="
secrets = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc", "Z"]), min_size=SHORTEST, max_size=40)


@given(secrets, st.binary(max_size=5), st.binary(max_size=5))
def test_s59_no_form_of_a_secret_survives(secret, before, after):
    redact = Redactor([secret])
    raw = before + secret.encode() + after
    for text in (secret, quote(secret, safe=""), secret.encode().hex(), json.dumps(secret)):
        assert secret not in redact(f"x {text} y")
        assert secret.encode().hex() not in redact(f"x {text} y")
    encoded = base64.b64encode(raw).decode()
    # the characters that this secret alone decides are gone, wherever it stands in the encoded text
    core = base64.b64encode(b"\0" * len(before) + secret.encode()).decode()[(len(before) * 8 + 5) // 6 : -4]
    if len(core) >= SHORTEST:
        assert core not in redact(encoded)


@pytest.mark.parametrize(
    "text",
    [
        "HF_TOKEN=abcdef123",
        "hf_token: abcdef123",
        '{"api_key": "abcdef123"}',
        "Authorization: Bearer abcdef123",
        "curl -H 'authorization: token abcdef123'",
        "https://user:abcdef123@host/x",
        "--api-key=abcdef123",
        "password = 'abcdef123'",
        "AWS_SECRET_ACCESS_KEY=abcdef123",
        "client_secret=abcdef123&next=1",
    ],
)
def test_s59_a_value_beside_a_key_that_names_a_secret(text):
    assert "abcdef123" not in Redactor()(text)
    assert MASK in Redactor()(text)


@pytest.mark.parametrize(
    "text",
    [
        "--max-total-tokens=4096",
        "max_tokens: 128",
        "gen throughput (token/s): 123.7, #queue-req: 0",
        "tokenizer_path='/models/x'",
        "num_tokens: 512, #token: 77",
        "the author: Jane",
        '{"prompt_tokens": 5, "completion_tokens": 7}',
        "api_key=None, ssl_keyfile_password=None",
        "http://127.0.0.1:30000/v1",
        "keyboard: qwerty",
    ],
)
def test_ordinary_log_lines_stay_as_they_are(text):
    assert Redactor(["s3cretvalue"])(text) == text


@pytest.mark.parametrize("secret", ["", "   ", "a", "12345"])
def test_empty_and_very_short_values_match_nothing(secret):
    text = "a plain text, a 12345 and    blanks"
    assert Redactor([secret])(text) == text
    assert all(len(form) >= SHORTEST for form in forms(secret))


def test_known_token_shapes_need_no_key():
    assert Redactor()("clone with ghp_" + "a1B2" * 9) == f"clone with {MASK}"


def test_the_environment_gives_the_secrets():
    redact = Redactor.of_environment({"HF_TOKEN": SECRET, "HOME": "/home/someone", "MAX_TOKENS": "4096000"})
    assert redact(f"{SECRET} in /home/someone, 4096000") == f"{MASK} in /home/someone, 4096000"


@given(st.text(max_size=80))
def test_masking_twice_changes_nothing(text):
    redact = Redactor(["s3cretvalue"])
    assert redact(redact(text)) == redact(text)


@given(st.binary(max_size=60))
def test_bytes_without_secrets_pass_unchanged(data):
    assert Redactor(["\U0001f600never-there"])(data) == data or MASK.encode() in Redactor()(data)


def test_bytes_and_trees():
    redact = Redactor(["s3cretvalue"])
    assert redact(b"\xff s3cretvalue") == b"\xff " + MASK.encode()
    value = {"token": "xy", "env": {"A": "s3cretvalue!", "n": 3}, "list": ["s3cretvalue", None], "max_tokens": 7}
    assert redact.tree(value) == {
        "token": MASK,
        "env": {"A": f"{MASK}!", "n": 3},
        "list": [MASK, None],
        "max_tokens": 7,
    }


def test_names():
    assert all(map(looks_secret, ("HF_TOKEN", "DAY0_LLM_API_KEY", "GITHUB_TOKEN", "DB_PASSWORD", "api-key", "auth")))
    assert not any(map(looks_secret, ("max_tokens", "tokenizer", "LANG", "PATH", "eos_token_id", "author", "monkey")))
