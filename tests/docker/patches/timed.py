"""Times the decode attention of the engine that this environment imports; one JSON object on the last line."""

import json
import time

import torch
from sglang.srt.layers.attention import torch_native_backend

HEADS, GROUPS, DIM, REQUESTS, TOKENS = 8, 4, 64, 8, 256


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    backend = torch_native_backend.TorchNativeAttnBackend
    attend = backend._run_sdpa_forward_decode
    keys, values = (torch.randn(16384, GROUPS, DIM) for _ in range(2))
    places = torch.stack([torch.randperm(16384)[:TOKENS] for _ in range(REQUESTS)]).int()
    query = torch.randn(REQUESTS, HEADS, DIM)
    output = torch.empty_like(query)
    slots, lengths = torch.arange(REQUESTS), torch.full((REQUESTS,), TOKENS)
    best = float("inf")
    for _ in range(60):
        began = time.perf_counter()
        attend(None, query, output, keys, values, places, slots, lengths, scaling=DIM**-0.5, enable_gqa=True)
        best = min(best, time.perf_counter() - began)
    told = {"us": best * 1e6, "sum": float(output.abs().sum()), "file": torch_native_backend.__file__}
    print(json.dumps(told))


if __name__ == "__main__":
    main()
