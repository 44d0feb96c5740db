"""Our SGLang plug-in for processors, as a wheel: built from the sources beside this, without a build backend.

The wheel also carries a start-up file (`day0_sglang_cpu_start.pth`), which setuptools can't place. Equal sources give
an equal wheel, to the byte.
"""

from __future__ import annotations

import base64
import hashlib
import zipfile
from importlib.resources import files
from io import BytesIO

NAME, VERSION = "day0_sglang_cpu", "0.3.0"
WHEEL = f"{NAME}-{VERSION}-py3-none-any.whl"
MODULES = ("__init__", "attention", "compiled", "platform", "speculation", "start")
ENTRY_POINTS = """[sglang.srt.platforms]
day0_cpu = day0_sglang_cpu:activate

[sglang.srt.plugins]
day0_cpu = day0_sglang_cpu:register
"""


def wheel() -> bytes:
    """The wheel file: https://packaging.python.org/specifications/binary-distribution-format/."""
    info = f"{NAME}-{VERSION}.dist-info"
    folder = files(__name__).joinpath(NAME)
    content = {f"{NAME}/{module}.py": folder.joinpath(f"{module}.py").read_bytes() for module in MODULES}
    content[f"{NAME}_start.pth"] = f"import {NAME}.start\n".encode()
    content[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {VERSION}\n".encode()
    content[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: day0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    content[f"{info}/entry_points.txt"] = ENTRY_POINTS.encode()
    rows = [f"{name},sha256={_digest(data)},{len(data)}" for name, data in content.items()]
    content[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,", ""]).encode()
    out = BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in content.items():
            archive.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), data)
    return out.getvalue()


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
