from pathlib import Path

import pytest
from day0.runs.engine_facts import EngineFacts
from day0.tools.engines.help import parse_help, with_types

HERE = Path(__file__).parent
KINDS = {
    "chunked-prefill-size": {"kind": "size", "default": None},
    "max-running-requests": {"kind": "int", "default": None},
    "mem-fraction-static": {"kind": "float", "default": None},
    "json-model-override-args": {"kind": "json", "default": "{}"},
    "context-length": {"kind": "size", "default": None},
    "cuda-graph-bs-decode": {"kind": "int", "default": None},
    "speculative-accept-threshold-single": {"kind": "float", "default": "1.0"},
}
HELP = """
  --model-path MODEL_PATH, --model MODEL_PATH
                        x
  --host HOST           x
  --port PORT           x
  --dtype {auto,half,float16,bfloat16,float32}
                        x
  --attention-backend {torch_native,triton,flex_attention}
                        x
  --load-format {auto,safetensors,dummy,pt}
                        x
  --tp-size TP_SIZE, --tensor-parallel-size TP_SIZE
                        x
  --chunked-prefill-size CHUNKED_PREFILL_SIZE
                        x
  --max-running-requests MAX_RUNNING_REQUESTS
                        x
  --mem-fraction-static MEM_FRACTION_STATIC
                        x
  --json-model-override-args JSON_MODEL_OVERRIDE_ARGS
                        x
  --context-length CONTEXT_LENGTH
                        x
  --cuda-graph-bs-decode CUDA_GRAPH_BS_DECODE [CUDA_GRAPH_BS_DECODE ...]
                        x
  --speculative-accept-threshold-single SPECULATIVE_ACCEPT_THRESHOLD_SINGLE
                        x
  --enable-tf32-matmul, --no-enable-tf32-matmul
                        x
  --trust-remote-code   x
  --disable-radix-cache
                        x
  --allow-auto-truncate
                        x
  --schedule-policy {lpm,fcfs}
                        x
  --chat-template CHAT_TEMPLATE
                        x
"""


@pytest.fixture
def facts() -> EngineFacts:
    return EngineFacts(
        engine="sglang",
        build="sha256:b",
        version="0.5.23",
        flags=with_types(parse_help(HELP), KINDS),
        packages={"sglang": "0.5.23"},
        capabilities={"tcmalloc": "/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4"},
    )


@pytest.fixture
def excerpt() -> str:
    return (HERE / "help_excerpt.txt").read_text()
