"""What a checkpoint is, read from its files alone: geometry, quantisation, sizes, tokenizer.

Names differ between families and releases; each fact is looked up under every name that published configurations
use. What the files do not say stays unknown.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from day0.runs.engine_facts import ModelFacts
from day0.runs.errors import UserError
from day0.tools.revision import revision_of

_NESTED = ("text_config", "language_config", "llm_config", "thinker_config")
"""Where multi-modal models keep the configuration of their language model."""
_FLOATS = {"F64": 8, "F32": 4, "BF16": 2, "F16": 2, "F8_E4M3": 1, "F8_E5M2": 1}
MAX_HEADER_BYTES = 100 << 20


def survey(folder: str | Path, *, model: str | None = None, revision: str = "") -> ModelFacts:
    """The facts of a model folder. Raises `UserError` when it is no readable checkpoint.

    `model` is the name under which it is asked for (default: the folder), `revision` its hub commit or content hash.
    """
    place = Path(folder)
    try:
        return _facts(place, model, revision)
    except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError) as error:
        why = " ".join(str(error).split())[:200]
        raise UserError(f"{place} is no checkpoint that day0 can read: a value of a wrong kind ({why})") from None


def _facts(place: Path, model: str | None, revision: str) -> ModelFacts:
    config = _json(place / "config.json", needed=True)
    inner = next((config[name] for name in _NESTED if isinstance(config.get(name), dict)), config)
    both = {**config, **inner}
    quant = _quantization(config, inner)
    weights = _Weights.read(place)
    layers, hidden = _whole(both, place, "num_hidden_layers", "n_layer", "num_layers"), _hidden(both, place)
    heads = _whole(both, place, "num_attention_heads", "n_head")
    nope, rope = both.get("qk_nope_head_dim"), both.get("qk_rope_head_dim")
    head_dim = both.get("head_dim") or (nope + rope if nope and rope else hidden // heads)
    if head_dim < 1:
        raise ValueError(f"a head of {head_dim} elements")
    shared = ("num_key_value_heads", "multi_query_group_num")
    experts = _first(both, "n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts") or 0
    if isinstance(experts, list):
        experts = max(experts)
    return ModelFacts(
        model=model or str(place),
        revision=revision,
        architecture=str((config.get("architectures") or inner.get("architectures") or ["unknown"])[0]),
        model_type=str(config.get("model_type") or inner.get("model_type") or ""),
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=heads if _first(both, *shared) is None else _whole(both, place, *shared),
        head_dim=int(head_dim),
        vocab=_whole(both, place, "vocab_size", "padded_vocab_size"),
        context=_whole(both, place, "max_position_embeddings", "n_positions", "seq_length", "max_sequence_length"),
        intermediate=_first(both, "intermediate_size", "ffn_hidden_size", "mlp_intermediate_size"),
        experts=int(experts),
        experts_per_token=int(
            _first(both, "num_experts_per_tok", "num_experts_per_token", "moe_topk", "experts_per_token") or 0
        ),
        shared_experts=_shared(both),
        moe_intermediate=_first(both, "moe_intermediate_size", "expert_intermediate_size")
        or (both.get("intermediate_size") if experts else None),
        dense_layers=int(_first(both, "first_k_dense_replace", "num_dense_layers") or 0) if experts else 0,
        kv_lora_rank=both.get("kv_lora_rank"),
        q_lora_rank=both.get("q_lora_rank"),
        rope_head_dim=rope,
        nextn_layers=int(
            _first(both, "num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules", "num_mtp_layers") or 0
        ),
        dtype=str(_first(both, "torch_dtype", "dtype") or weights.dtype or "bfloat16"),
        quantization=quant.get("method"),
        exclude=tuple(quant.get("exclude", ())),
        weight_bytes=weights.bytes,
        parameters=weights.parameters if quant.get("method") is None else None,
        tokenizer=_tokenizer(place),
        chat_template=_has_chat_template(place),
        warnings=tuple(_warnings(place, config, weights)),
    )


def _json(path: Path, *, needed: bool = False) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if not needed:
            return {}
        what = "is not a folder" if not path.parent.is_dir() else "has no config.json, so it is not a model folder"
        raise UserError(f"{path.parent} {what}; give the folder of a checkpoint or its ID on the hub") from None
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path} can't be read as JSON ({error}); fetch the checkpoint again") from None
    if not isinstance(value, dict):
        raise UserError(f"{path} is not a JSON object; fetch the checkpoint again")
    return value


def _first(config: Mapping[str, Any], *names: str) -> Any:
    return next((config[name] for name in names if config.get(name) is not None), None)


def _whole(config: Mapping[str, Any], place: Path, *names: str) -> int:
    value = _first(config, *names)
    if not isinstance(value, (int, float)) or not 1 <= value < 2**53:
        raise UserError(f"{place}/config.json does not say {names[0]}; day0 can't tell the model's geometry")
    return int(value)


def _hidden(config: Mapping[str, Any], place: Path) -> int:
    return _whole(config, place, "hidden_size", "n_embd", "d_model")


def _shared(config: Mapping[str, Any]) -> int:
    count = _first(config, "n_shared_experts", "num_shared_experts")
    if count is not None:
        return int(count)
    return 1 if config.get("shared_expert_intermediate_size") or config.get("shared_intermediate_size") else 0


def _quantization(config: Mapping[str, Any], inner: Mapping[str, Any]) -> dict[str, Any]:
    """Method and the layers left out, however the exporter calls them."""
    quant = config.get("quantization_config") or inner.get("quantization_config") or config.get("compression_config")
    if not isinstance(quant, Mapping):
        return {}
    method = str(quant.get("quant_method") or quant.get("quant_algo") or "unknown")
    weight = ((quant.get("global_quant_config") or {}).get("weight") or {}) if method == "quark" else {}
    if isinstance(weight, Mapping) and weight.get("dtype"):
        method = f"quark {weight['dtype']}"
    left_out = _first(quant, "exclude", "ignore", "modules_to_not_convert", "ignored_layers", "exclude_modules")
    return {"method": method, "exclude": [str(name) for name in left_out or []]}


def _tokenizer(place: Path) -> str | None:
    names = ("tokenizer.json", "tokenizer.model", "tiktoken.model", "vocab.json", "tokenizer_config.json")
    return next((name for name in names if (place / name).is_file()), None)


def _has_chat_template(place: Path) -> bool:
    if any((place / name).is_file() for name in ("chat_template.jinja", "chat_template.json")):
        return True
    return bool(_json(place / "tokenizer_config.json").get("chat_template"))


def _warnings(place: Path, config: Mapping[str, Any], weights: _Weights) -> list[str]:
    found = list(weights.problems)
    if any(place.glob("*.bin")) or any(place.glob("*.pt")) or any(place.glob("*.pth")):
        found.append("pickle weights lie in the folder: they run code when loaded and need a person's consent")
    if config.get("auto_map"):
        found.append(
            "the checkpoint brings its own code (auto_map): trust_remote_code needs a person's consent, "
            "`day0 consent MODEL --remote-code`"
        )
    if _tokenizer(place) is None:
        found.append("no tokenizer file")
    if not (place / "generation_config.json").is_file():
        found.append("no generation_config.json: the recommended temperature is unknown")
    return found


class _Weights:
    """Sizes from the index and the headers of the weight files; no tensor is read."""

    def __init__(self) -> None:
        self.bytes: int | None = None
        self.parameters: int | None = None
        self.dtype: str | None = None
        self.problems: list[str] = []

    @classmethod
    def read(cls, place: Path) -> _Weights:
        found = cls()
        index = _json(place / "model.safetensors.index.json")
        listed = sorted({str(name) for name in index.get("weight_map", {}).values()})
        files = [place / name for name in listed] or sorted(place.glob("*.safetensors"))
        missing = [file.name for file in files if not file.is_file()]
        if missing:
            found.problems.append(f"{len(missing)} of {len(files)} weight files are missing, first {missing[0]}")
        present = [file for file in files if file.is_file()]
        if not present:
            found.problems.append("no safetensors weights in the folder")
            pickled = sum(file.stat().st_size for file in place.glob("*.bin"))
            found.bytes = index.get("metadata", {}).get("total_size") or pickled or None
            return found
        found._add(present)
        return found

    def _add(self, files: list[Path]) -> None:
        self.bytes, self.parameters = 0, 0
        by_dtype: dict[str, int] = {}
        for file in files:
            try:
                tensors = header(file)
            except ValueError as error:
                self.problems.append(str(error))
                continue
            for tensor in tensors.values():
                start, end = tensor["data_offsets"]
                size = end - start
                self.bytes += size
                by_dtype[tensor["dtype"]] = by_dtype.get(tensor["dtype"], 0) + size
                count = 1
                for length in tensor["shape"]:
                    count *= length
                self.parameters += count
        names = {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}
        largest = max(by_dtype, key=lambda name: by_dtype[name], default="")
        self.dtype = names.get(largest)


def header(file: Path) -> dict[str, Any]:
    """The header of a safetensors file: tensor name -> dtype, shape, data_offsets.

    Raises `ValueError` when the file is shorter than its header says, or no safetensors file at all. Format:
    https://huggingface.co/docs/safetensors (8 bytes little-endian length, JSON, data).
    """
    size = file.stat().st_size
    with file.open("rb") as opened:
        head = opened.read(8)
        length = struct.unpack("<Q", head)[0] if len(head) == 8 else 0
        if not 2 <= length <= min(MAX_HEADER_BYTES, max(0, size - 8)):
            raise ValueError(f"{file.name} is no safetensors file or its header is cut off")
        try:
            tensors = json.loads(opened.read(length))
        except ValueError:
            raise ValueError(f"{file.name} has a damaged header") from None
    tensors.pop("__metadata__", None)
    ends = max((tensor["data_offsets"][1] for tensor in tensors.values()), default=0)
    if 8 + length + ends != size:
        raise ValueError(f"{file.name} should be {8 + length + ends} bytes and has {size}: it was cut off or altered")
    return dict(tensors)


__all__ = ["header", "revision_of", "survey"]
