"""Makes a small Llama that really answers sums, so that right and wrong answers of an engine are real.

usage: tiny_model.py FOLDER [--layers N] [--damaged] [--seed N]      (inside the engine's environment)

The vocabulary is printable ASCII, one token a character: streamed text is never held back for want of a complete
character. Two layers are trained until 200 sums are right; the layers after them have zero output projections: they
cost what a layer costs and leave the answers alone. `--damaged` turns each digit of the output into the next one
(9 becomes 0): same geometry, same speed, fluent and always wrong. Questions and answers go to day0-task.jsonl.
"""

import argparse
import json
import random
import sys
import time
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

UNKNOWN, BEGIN, END = 0, 1, 2
SPECIALS = ["<unk>", "<s>", "</s>"]
SUMS = 200
MAX_STEPS = 900
CONTEXT = 4096
WIDTH, INNER, HEADS, KV_HEADS, HEAD_DIM = 256, 704, 16, 4, 32
"""Narrow, four query heads to a key head as large models have: a processor without BF16 or AVX-512 then spends its time
where a server does, in attention over many short steps of decode, and not in the matrices of prefill."""


def say(text: str) -> None:
    """A line of progress."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def tokenizer() -> PreTrainedTokenizerFast:
    """One token for each printable ASCII character."""
    vocabulary = {token: i for i, token in enumerate(SPECIALS + [chr(code) for code in range(32, 127)])}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token=SPECIALS[UNKNOWN]))
    core.pre_tokenizer = pre_tokenizers.Split(pattern="", behavior="isolated")
    core.decoder = decoders.Fuse()
    made = PreTrainedTokenizerFast(
        tokenizer_object=core,
        unk_token=SPECIALS[UNKNOWN],
        bos_token=SPECIALS[BEGIN],
        eos_token=SPECIALS[END],
        pad_token=SPECIALS[END],
        model_max_length=CONTEXT,
    )
    made.chat_template = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    return made


def llama(vocabulary: int, layers: int) -> LlamaForCausalLM:
    """An untrained model of our geometry: about 0.9 M parameters a layer."""
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=vocabulary,
            hidden_size=WIDTH,
            intermediate_size=INNER,
            num_hidden_layers=layers,
            num_attention_heads=HEADS,
            num_key_value_heads=KV_HEADS,
            head_dim=HEAD_DIM,
            max_position_embeddings=CONTEXT,
            bos_token_id=BEGIN,
            eos_token_id=END,
            pad_token_id=END,
            tie_word_embeddings=False,
        )
    )


def questions(seed: int) -> list[tuple[str, str]]:
    """The sums to learn: `("12+34=", "46")`."""
    pairs = [(a, b) for a in range(10, 100) for b in range(10, 100)]
    return [(f"{a}+{b}=", str(a + b)) for a, b in random.Random(seed).sample(pairs, SUMS)]


def train(model: Any, tok: Any, sums: list[tuple[str, str]]) -> None:
    """Learns the answers by heart; the questions themselves are not learned."""
    rows = [[*tok(question + answer, add_special_tokens=False).input_ids, END] for question, answer in sums]
    width = max(map(len, rows))
    inputs = torch.tensor([row + [END] * (width - len(row)) for row in rows])
    labels = inputs.clone()
    for i, ((question, _), row) in enumerate(zip(sums, rows, strict=True)):
        labels[i, : len(question)] = -100
        labels[i, len(row) :] = -100
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(MAX_STEPS):
        loss = model(input_ids=inputs, labels=labels).loss
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if step % 25 == 0:
            say(f"step {step}, loss {loss.item():.4f}")
        if loss.item() < 0.01:
            return
    raise SystemExit(f"training did not converge: loss {loss.item():.4f} after {MAX_STEPS} steps")


def deepen(small: Any, vocabulary: int, layers: int) -> Any:
    """The trained model with more layers that change nothing, in bfloat16."""
    full = llama(vocabulary, layers)
    full.load_state_dict(small.state_dict(), strict=False)
    with torch.no_grad():
        for layer in full.model.layers[2:]:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
    return full.to(torch.bfloat16).eval()


def damage(model: Any, tok: Any) -> None:
    """Makes the output say the next digit."""
    digits = [tok.convert_tokens_to_ids(str(digit)) for digit in range(10)]
    with torch.no_grad():
        head = model.lm_head.weight
        head[[digits[(d + 1) % 10] for d in range(10)]] = head[digits].clone()


def right_answers(model: Any, tok: Any, sums: list[tuple[str, str]]) -> int:
    """How many sums the finished model answers exactly."""
    right = 0
    lengths: dict[int, list[tuple[list[int], str]]] = {}
    for question, answer in sums:
        ids = tok(question, add_special_tokens=False).input_ids
        lengths.setdefault(len(ids), []).append((ids, answer))
    for length, asked in lengths.items():  # together: one at a time it takes minutes beside another busy process
        given = torch.tensor([ids for ids, _ in asked])
        ones = torch.ones_like(given)
        out = model.generate(given, attention_mask=ones, max_new_tokens=5, do_sample=False, pad_token_id=END)
        told = tok.batch_decode(out[:, length:], skip_special_tokens=True)
        right += sum(text == answer for text, (_, answer) in zip(told, asked, strict=True))
    return right


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--damaged", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    began = time.time()
    random.seed(asked.seed)
    torch.manual_seed(asked.seed)
    tok, sums = tokenizer(), questions(asked.seed)
    small = llama(len(tok), min(2, asked.layers))
    train(small, tok, sums)
    full = deepen(small, len(tok), asked.layers)
    if asked.damaged:
        damage(full, tok)
    right = right_answers(full, tok, sums)
    if right != (0 if asked.damaged else SUMS):
        raise SystemExit(f"{right} of {SUMS} sums are right: not what was asked for")
    asked.folder.mkdir(parents=True, exist_ok=True)
    tok.save_pretrained(asked.folder)
    full.save_pretrained(asked.folder)
    lines = (json.dumps({"prompt": question, "answer": answer}) for question, answer in sums)
    (asked.folder / "day0-task.jsonl").write_text("\n".join(lines) + "\n")
    size = sum(p.numel() for p in full.parameters()) / 1e6
    say(f"{size:.0f} M parameters, {right} of {SUMS} sums right, {time.time() - began:.0f} s")


if __name__ == "__main__":
    main()
