"""Decode attention of the engine against the plain sum, for grouped and ungrouped heads."""

import torch
from sglang.srt.layers.attention.torch_native_backend import TorchNativeAttnBackend

LENGTHS, DIM = (1, 7, 64, 33), 16


def main() -> None:
    torch.manual_seed(0)
    for heads, groups in ((8, 4), (4, 4), (8, 1)):
        keys, values = (torch.randn(512, groups, DIM) for _ in range(2))
        places = torch.stack([torch.randperm(512)[:64] for _ in LENGTHS]).int()
        query = torch.randn(len(LENGTHS), heads, DIM)
        output = torch.empty_like(query)
        slots, lengths = torch.arange(len(LENGTHS)), torch.tensor(LENGTHS)
        TorchNativeAttnBackend._run_sdpa_forward_decode(
            None, query, output, keys, values, places, slots, lengths, scaling=0.25, enable_gqa=heads != groups
        )
        for i, length in enumerate(LENGTHS):
            for head in range(heads):
                seen, group = places[i, :length].long(), head * groups // heads
                weights = (keys[seen, group] @ query[i, head] * 0.25).softmax(0)
                torch.testing.assert_close(output[i, head], weights @ values[seen, group])


main()
print("decode attention is the plain sum")
