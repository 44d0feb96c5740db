"""Prints what an SGLang build says of itself as one line of JSON that starts with `day0-facts `.

usage: sglang_facts.py      (inside the engine's environment)
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path


def flag_types() -> dict[str, dict[str, str | None]]:
    """Flag name -> kind and default, from the engine's own parser; empty where its parser is elsewhere."""
    from sglang.srt.server_args import ServerArgs

    parser = argparse.ArgumentParser()
    ServerArgs.add_cli_args(parser)
    out = {}
    for action in parser._actions:
        kind = getattr(action.type, "__name__", "") if action.type else ""
        kind = {"human_readable_int": "size", "loads": "json", "json_list_type": "json"}.get(kind, kind)
        default = None if action.default is None or action.default is argparse.SUPPRESS else str(action.default)
        for option in action.option_strings:
            if option.startswith("--"):
                out[option[2:]] = {"kind": kind or ("switch" if action.nargs == 0 else "str"), "default": default}
    return out


def capabilities() -> dict[str, str]:
    """What decides whether an axis of the search exists here: a C++ compiler, allocators, processor features."""
    out = {"python": platform.python_version(), "machine": platform.machine()}
    compiler = shutil.which(os.environ.get("CXX", "g++"))
    if compiler:
        done = subprocess.run([compiler, "-dumpfullversion"], capture_output=True, text=True, check=False, timeout=20)
        out["compiler"] = f"{Path(compiler).name} {done.stdout.strip()}"
    for name in ("tcmalloc_minimal", "tcmalloc", "jemalloc"):
        found = sorted(path for root in ("lib", "lib64") for path in Path("/usr", root).glob(f"**/lib{name}.so.?"))
        if found:
            out.setdefault(name.removesuffix("_minimal"), str(found[0]))
    if Path("/proc/cpuinfo").exists() and " amx_tile " in Path("/proc/cpuinfo").read_text(errors="replace"):
        out["amx"] = "amx_tile"
    try:
        import torch

        out["cpu"] = torch.backends.cpu.get_cpu_capability()
        out["torch"] = torch.__version__
    except Exception as error:
        out["torch_error"] = str(error)
    return out


def main() -> None:
    """See above."""
    try:
        types, problem = flag_types(), ""
    except Exception as error:
        types, problem = {}, f"{type(error).__name__}: {error}"
    packages = {d.metadata["Name"]: d.version for d in metadata.distributions() if d.metadata["Name"]}
    facts = {"types": types, "packages": packages, "capabilities": capabilities(), "problem": problem}
    sys.stdout.write("\nday0-facts " + json.dumps(facts) + "\n")


if __name__ == "__main__":
    main()
