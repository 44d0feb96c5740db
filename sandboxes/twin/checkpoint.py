"""A world's checkpoint as a folder: everything of it but the weights."""

from __future__ import annotations

import json
from pathlib import Path

from day0.runs import geometry as geo
from day0.sandboxes.twin.answers import dice
from day0.sandboxes.twin.world import World

TASK = 200
TOKENIZER = {
    "version": "1.0",
    "model": {"type": "WordLevel", "vocab": {"<unk>": 0}, "unk_token": "<unk>"},
    "pre_tokenizer": {"type": "Whitespace"},
}


def weight_bytes(world: World) -> int:
    """Of the whole checkpoint."""
    return int(geo.weight_bytes(world.model.geometry, world.model.precision) * world.truth.weights)


def files(world: World) -> dict[str, str]:
    """File name -> text. The weights' index says how large they are; the weights themselves exist on no disk."""
    sums = []
    for n in range(TASK):
        one, two = (1 + int(98 * dice("sum", side, str(n))) for side in "ab")
        sums.append(json.dumps({"prompt": f"{one} + {two} =", "answer": str(one + two)}))
    return {
        "config.json": _text(dict(world.model.config)),
        "generation_config.json": _text({"temperature": 1.0, "top_p": 0.95}),
        "model.safetensors.index.json": _text({"metadata": {"total_size": weight_bytes(world)}, "weight_map": {}}),
        "tokenizer.json": _text(TOKENIZER),
        "tokenizer_config.json": _text({"chat_template": "{{ messages[-1]['content'] }}"}),
        "day0-task.jsonl": "\n".join(sums) + "\n",
    }


def _text(value: object) -> str:
    return json.dumps(value, indent=1, sort_keys=True) + "\n"


def write(world: World, folder: Path) -> Path:
    """The model's folder `ORG/NAME` under `folder`, made or brought up to date. Raises `OSError`."""
    place = folder / world.model.id
    place.mkdir(parents=True, exist_ok=True)
    for name, text in files(world).items():
        file = place / name
        if not file.is_file() or file.read_text(encoding="utf-8") != text:
            part = file.with_name(name + ".part")
            part.write_text(text, encoding="utf-8")
            part.replace(file)
    return place
