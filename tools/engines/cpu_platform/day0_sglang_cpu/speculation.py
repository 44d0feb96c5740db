"""`--speculative-algorithm NGRAM` on a processor: what SGLang takes of its kernel library for it, in plain PyTorch.

SGLang asks an out-of-tree platform for the worker of an algorithm. Ours is the engine's own n-gram worker; the five
small kernels that it calls are replaced by the same sums here, and the trie, which a C++ compiler would have to make,
by a table of chains. `--attention-backend torch_grouped` verifies a draft; the engine's `torch_native` can't. Drafts
are held against the most likely token, as the engine does on every processor: a request that samples is refused.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import torch

LIBRARY = ("sgl_kernel", "sgl_kernel.speculative")
CONTEXT = 3
"""A next token is looked up by at most so many before it."""
MOST = 1 << 20
"""Contexts that are kept; beyond it the table starts anew."""


class Chains:
    """The engine's `NgramCorpus`, as far as its worker asks: what followed the last tokens when they came last."""

    def __init__(self, *, draft_token_num: int, **_: Any) -> None:
        self._width, self._next = draft_token_num, dict[tuple[int, ...], int]()

    def batch_put(self, batch_tokens: list[list[int]]) -> None:
        """Remembers what follows what."""
        if len(self._next) > MOST:
            self._next.clear()
        for tokens in batch_tokens:
            for end in range(1, len(tokens)):
                for start in range(max(0, end - CONTEXT), end):
                    self._next[tuple(tokens[start:end])] = tokens[end]

    def batch_get(self, req_ids: list[str], batch_tokens: list[list[int]], total_lens: list[int]) -> tuple[Any, Any]:
        """Drafts [requests x width], the last known token first, and which of a request's tokens precede each one."""
        import numpy as np

        drafts = np.array([self._chain(tokens) for tokens in batch_tokens], dtype=np.int64)
        tree = np.tril(np.ones((self._width, self._width), dtype=np.int64))
        return drafts.reshape(-1), np.tile(tree, (len(batch_tokens), 1, 1)).reshape(-1)

    def _chain(self, tokens: list[int]) -> list[int]:
        known, out = list(tokens[-CONTEXT:]), tokens[-1:]
        while len(out) < self._width:
            found = (self._next.get(tuple(known[start:])) for start in range(len(known)))
            token = next((t for t in found if t is not None), 0)
            out.append(token)
            known = [*known, token][-CONTEXT:]
        return out

    def synchronize(self) -> None:
        """Nothing runs beside."""

    def erase_match_state(self, req_ids: list[str]) -> None:
        """No request has a state of its own."""

    def reset(self) -> None:
        """Forgets everything: the cache was flushed."""
        self._next.clear()

    def list_external_corpora(self) -> dict[str, int]:
        """None can be loaded."""
        return {}


def worker() -> type:
    """The engine's n-gram worker with its kernels replaced, in this process only."""
    library = {name: ModuleType(name) for name in LIBRARY}
    for name, module in library.items():
        module.__spec__ = ModuleSpec(name, None, is_package=name == LIBRARY[0])
    library[LIBRARY[1]].reconstruct_indices_from_tree_mask = None  # type: ignore[attr-defined]
    sys.modules.update(library)
    try:
        from sglang.srt.speculative import ngram_worker
    finally:
        for name in LIBRARY:  # its absence is how the rest of the engine knows that there is none
            sys.modules.pop(name, None)
    from sglang.srt.mem_cache import allocation
    from sglang.srt.speculative import eagle_utils, spec_utils

    def reconstruct(*args: Any) -> None:
        _reconstruct(ngram_worker._derive_tree_links, *args)

    ngram_worker.NgramCorpus = Chains
    ngram_worker._is_cpu = True  # masks over the draft alone: what precedes it is always seen
    ngram_worker.reconstruct_indices_from_tree_mask_func = reconstruct
    eagle_utils.verify_tree_greedy_func = verify
    eagle_utils._verify_uses_greedy = _greedy
    spec_utils.fill_front_out_cache_loc_func = front
    spec_utils.fill_accept_out_cache_loc_func = accepted
    allocation.assign_req_to_token_pool_func = assign
    found: type = ngram_worker.NGRAMWorker
    return found


def pool() -> type:
    """The engine's pool of keys and values, which moves accepted tokens by indexing instead of with Triton."""
    from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool

    def nothing(self: Any) -> None:
        self._kv_copy_config, self.use_native_move_kv_cache = None, True

    return type("MovingPool", (MHATokenToKVPool,), {"_init_kv_copy_and_warmup": nothing})


def _greedy(*, is_all_greedy: bool, **_: Any) -> bool:
    if not is_all_greedy:
        raise NotImplementedError("day0: n-gram speculation on a processor answers at temperature 0 only")
    return True


def _reconstruct(  # noqa: PLR0917 (the kernel's eight)
    links: Any, tree: Any, lengths: Any, positions: Any, index: Any, child: Any, sibling: Any, *size: int
) -> None:
    """Places in the text and links of the nodes of each request's tree [requests x width x width], in place."""
    requests, width = size
    mask, node = tree.view(requests, width, width).bool(), torch.arange(width)
    depth = (mask & (node < node.unsqueeze(1))).sum(-1)
    positions.copy_((depth + lengths.unsqueeze(1)).flatten())
    index.copy_(torch.arange(requests * width).view(requests, width))
    children, siblings = links(mask.numpy(), requests, width)
    child.copy_(children)
    sibling.copy_(siblings)


def verify(  # noqa: PLR0917 (the kernel's nine)
    predicts: Any, accept_index: Any, accept_token_num: Any, candidates: Any, retrieve_index: Any,
    retrieve_next_token: Any, retrieve_next_sibling: Any, target_predict: Any, topk: int = -1,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Follows each tree from its root as long as a child is the model's own next token; the model's last one is added.

    Fills tokens by node, accepted nodes [requests x width] from the root, and how many drafts were right, in place.
    """
    place, child, sibling = (t.tolist() for t in (retrieve_index, retrieve_next_token, retrieve_next_sibling))
    drafts, wanted = candidates.tolist(), target_predict.tolist()
    for request, own in enumerate(wanted):
        path = [0]
        while len(path) < accept_index.shape[1]:
            node = child[request][path[-1]]
            while node >= 0 and drafts[request][node] != own[path[-1]]:
                node = sibling[request][node]
            if node < 0:
                break
            path.append(node)
        nodes = [place[request][node] for node in path]
        predicts[nodes] = torch.tensor([own[node] for node in path], dtype=predicts.dtype)
        accept_index[request, : len(path)] = torch.tensor(nodes, dtype=accept_index.dtype)
        accept_token_num[request] = len(path) - 1
    return predicts, accept_index, accept_token_num


def front(num_front: Any, out_cache_loc: Any, front_out_cache_loc: Any) -> None:
    """The first places of each request's window, one request after the other, in place."""
    windows = out_cache_loc.view(num_front.numel(), -1)
    kept = windows[torch.arange(windows.shape[1]) < num_front.unsqueeze(1)]
    front_out_cache_loc[: kept.numel()] = kept


def accepted(accept_index: Any, out_cache_loc: Any, accept_out_cache_loc: Any, size: int) -> None:
    """The places of the accepted nodes, one request after the other, in place."""
    nodes = accept_index.flatten()
    kept = out_cache_loc[nodes[nodes >= 0].long()]
    accept_out_cache_loc[: kept.numel()] = kept


def assign(  # noqa: PLR0917 (the kernel's six)
    req_pool_indices: Any, req_to_token: Any, start_offset: Any, end_offset: Any, out_cache_loc: Any, batch_size: int
) -> None:
    """Writes new places behind those that each request has."""
    at = 0
    for slot, start, end in zip(*(t.tolist() for t in (req_pool_indices, start_offset, end_offset)), strict=True):
        req_to_token[slot, start:end] = out_cache_loc[at : at + end - start]
        at += end - start


def places(*, req_pool_indices: Any, req_to_token: Any, start_offset: Any, end_offset: Any, **_: Any) -> Any:
    """The places of each request's draft, one request after the other."""
    rows = zip(*(t.tolist() for t in (req_pool_indices, start_offset, end_offset)), strict=True)
    return torch.cat([req_to_token[slot, start:end] for slot, start, end in rows]).to(torch.int64)
