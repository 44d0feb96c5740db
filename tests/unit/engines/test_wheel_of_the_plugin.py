import base64
import csv
import hashlib
import zipfile
from io import BytesIO

from day0.tools.engines import cpu_platform


def test_the_wheel_is_the_same_each_time_and_records_every_file():
    data = cpu_platform.wheel()
    assert data == cpu_platform.wheel()
    with zipfile.ZipFile(BytesIO(data)) as archive:
        names = archive.namelist()
        rows = list(csv.reader(archive.read(next(n for n in names if n.endswith("/RECORD"))).decode().splitlines()))
        assert sorted(row[0] for row in rows) == sorted(names)
        for name, recorded, size in rows:
            if recorded:
                content = archive.read(name)
                digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
                assert (recorded, size) == (f"sha256={digest}", str(len(content)))
    assert "day0_sglang_cpu_start.pth" in names


def test_every_module_of_the_plugin_is_in_the_wheel():
    from importlib.resources import files

    folder = files("day0.tools.engines.cpu_platform").joinpath("day0_sglang_cpu")
    modules = {f.name.removesuffix(".py") for f in folder.iterdir() if f.name.endswith(".py")}
    assert modules == set(cpu_platform.MODULES)
