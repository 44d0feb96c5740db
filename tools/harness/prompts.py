"""Prompts of exact token counts, cut from a text with the model's own tokenizer. Runs in the harness environment."""

from __future__ import annotations

import importlib
import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

TRIES = 24
BLOCKS = 50_000


def load_tokenizer(folder: str) -> Any:
    """The model's tokenizer; no code of the checkpoint is run. A class that this transformers lacks: from its file."""
    transformers = importlib.import_module("transformers")
    try:
        return transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    except (ValueError, KeyError, ImportError, AttributeError):
        return transformers.PreTrainedTokenizerFast(tokenizer_file=str(Path(folder) / "tokenizer.json"))


def ends(tokenizer: Any, folder: str) -> tuple[str, ...]:
    """The texts of the tokens that end an answer: the tokenizer's own, and those that the checkpoint's files name."""
    found = [getattr(tokenizer, "eos_token", None)]
    for name in ("generation_config.json", "config.json"):
        path = Path(folder) / name
        named = json.loads(path.read_text(encoding="utf-8")).get("eos_token_id") if path.is_file() else None
        for token in named if isinstance(named, list) else [named]:
            if isinstance(token, int):
                found.append(tokenizer.convert_ids_to_tokens(token))
    return tuple(dict.fromkeys(text for text in found if isinstance(text, str) and text))


class Cutter:
    """Cuts prompts out of one corpus, which is taken as a ring."""

    def __init__(self, tokenizer: Any, corpus: str, chat: bool, ends: tuple[str, ...] = ()) -> None:
        self.tokenizer, self.corpus, self.ends = tokenizer, corpus, ends
        template = bool(getattr(tokenizer, "chat_template", None))
        self.chat = chat and template and importlib.util.find_spec("jinja2") is not None
        sample = corpus[:4000]
        self._blocks: dict[tuple[int, int], str] = {}
        self.ratio = len(sample) / max(1, self.count(sample))

    def count(self, text: str) -> int:
        """Tokens of a text as the server counts them (its special tokens included)."""
        return len(self.tokenizer(text, add_special_tokens=True)["input_ids"])

    def forced(self, answer: str, tokens: int) -> int | None:
        """How many of an answer's tokens came after its first end-of-text token; None: nobody knows such a token."""
        if not self.ends:
            return None
        places = [(at, end) for end in self.ends if (at := answer.find(end)) >= 0]
        if not places:
            return 0
        at, end = min(places)
        whole = self.tokenizer(answer[: at + len(end)], add_special_tokens=False)["input_ids"]
        return max(0, tokens - len(whole))

    def render(self, content: str) -> str:
        """Through the chat template as one user message, without a second BOS where the tokenizer adds its own."""
        if not self.chat:
            return content
        message = [{"role": "user", "content": content}]
        text: str = self.tokenizer.apply_chat_template(message, tokenize=False, add_generation_prompt=True)
        bos = getattr(self.tokenizer, "bos_token", None)
        if bos and text.startswith(bos) and self.count("") > 0:
            text = text[len(bos) :]
        return text

    def span(self, start: int, chars: int) -> str:
        """`chars` characters from a place in the ring."""
        start %= len(self.corpus)
        out = self.corpus[start : start + chars]
        while len(out) < chars:
            out += self.corpus[: chars - len(out)]
        return out

    def head(self, start: int, tokens: int) -> str:
        """Text of about `tokens` tokens: a shared prefix, before any template."""
        return self.exact("", start, tokens, plain=True)[0] if tokens else ""

    def exact(self, prefix: str, start: int, tokens: int, *, plain: bool = False) -> tuple[str, int]:
        """The prompt `prefix` + text from `start`, cut so that it is `tokens` tokens, and the count reached.

        One token a character is exact at once; else the cut moves by what is missing until it fits (merges at the
        cut may make the last token unreachable: then the nearest count found).
        """
        chars = max(1, int((tokens - self.count(prefix)) * self.ratio))
        return self._fit(lambda chars: prefix + self.span(start, chars), chars, tokens, plain=plain)

    def joined(self, places: list[int], block: int, tokens: int) -> tuple[str, int]:
        """The prompt of `block` tokens from each place, one after the other, cut to `tokens` tokens; as `exact`.

        Prompts whose lists of places begin alike begin alike. Text of the last place goes on where blocks fall short.
        """
        parts = [self._block(place, block) for place in places]
        text = "".join(parts)
        after = places[-1] + len(parts[-1])
        guess = max(1, int(len(text) * min(1.0, tokens / max(1, block * len(places)))))
        return self._fit(
            lambda chars: text[:chars] + (self.span(after, chars - len(text)) if chars > len(text) else ""),
            guess if tokens <= block * len(places) else int(tokens * self.ratio),
            tokens,
        )

    def _block(self, place: int, tokens: int) -> str:
        key = (place, tokens)
        if key not in self._blocks:
            if len(self._blocks) >= BLOCKS:
                self._blocks.clear()
            self._blocks[key] = self.head(place, tokens)
        return self._blocks[key]

    def _fit(self, text_of: Callable[[int], str], chars: int, tokens: int, *, plain: bool = False) -> tuple[str, int]:
        wrap = (lambda text: text) if plain else self.render
        low, high = 0, 0
        best: tuple[int, str, int] | None = None
        for _ in range(TRIES):
            text = wrap(text_of(chars))
            got = self.count(text)
            if best is None or abs(got - tokens) < best[0]:
                best = (abs(got - tokens), text, got)
            if got == tokens:
                break
            low, high = (chars, high) if got < tokens else (low, chars)
            chars += round((tokens - got) * self.ratio) or (1 if got < tokens else -1)
            if high and not low < chars < high:
                chars = (low + high) // 2
            if chars in {low, high}:
                break
        assert best is not None
        return best[1], best[2]
