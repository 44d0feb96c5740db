import hashlib
from base64 import urlsafe_b64encode

import pytest
from day0.runs.errors import Infrastructure
from day0.tools import environments, install


def package(folder, name, version, files):
    site = folder / "lib" / "python3.11" / "site-packages"
    info = site / f"{name}-{version}.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    rows = []
    for path, text in files.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(text)
        digest = urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        rows.append(f"{path},sha256={digest},{len(text)}")
    rows += [f"{info.name}/RECORD,,", f"{info.name}/INSTALLER,sha256=x,4", f"../../../bin/{name},sha256=y,1"]
    (info / "RECORD").write_text("\n".join(rows) + "\n")
    return folder


def test_the_digest_says_what_is_installed_and_not_where(tmp_path):
    a = package(tmp_path / "a", "one", "1.0", {"one/__init__.py": "x = 1\n"})
    b = package(tmp_path / "b", "one", "1.0", {"one/__init__.py": "x = 1\n"})
    c = package(tmp_path / "c", "one", "1.0", {"one/__init__.py": "x = 2\n"})
    assert environments.environment_digest(a) == environments.environment_digest(b)
    assert environments.environment_digest(a) != environments.environment_digest(c)
    assert environments.packages(a) == {"one": "1.0"}


def test_a_digest_is_read_again_once_a_record_changed(tmp_path):
    folder = package(tmp_path / "a", "one", "1.0", {"one/__init__.py": "x = 1\n"})
    first = environments.environment_digest(folder)
    assert environments.environment_digest(folder) == first
    package(folder, "two", "1.0", {"two/__init__.py": "x = 1\n"})
    second = environments.environment_digest(folder)
    assert second != first
    package(folder, "two", "1.0", {"two/__init__.py": "x = 2\n"})
    assert environments.environment_digest(folder) not in (first, second)


def test_a_changed_file_is_found_by_reading_it(tmp_path):
    folder = package(tmp_path / "a", "one", "1.0", {"one/__init__.py": "x = 1\n", "one/b.py": "y\n"})
    assert environments.altered(folder) == ()
    (folder / "lib/python3.11/site-packages/one/b.py").write_text("z\n")
    assert environments.altered(folder) == ("one/b.py",)


def test_half_an_installation_is_none(tmp_path):
    engines = environments.engines_folder(tmp_path)
    for name in (environments.ENGINE, environments.HARNESS):
        package(engines / name, "one", "1.0", {"one.py": "1\n"})
        (engines / name / "pyvenv.cfg").write_text("")
    assert environments.find(tmp_path) is None
    assert [(e.name, e.build) for e in environments.listing(tmp_path)] == [
        ("harness-0.5.9", ""),
        ("sglang-cpu-0.5.23", ""),
    ]
    for name in (environments.ENGINE, environments.HARNESS):
        (engines / name / environments.MARKER).write_text('{"packages": {"one": "1.0"}, "seconds": 1.5}')
    home = environments.find(tmp_path)
    assert home is not None
    assert home.build == home.harness_build == environments.environment_digest(home.engine)
    assert [e.packages for e in environments.listing(tmp_path)] == [1, 1]


def test_no_environment_is_infrastructure(tmp_path):
    with pytest.raises(Infrastructure, match="engine install"):
        environments.environment_digest(tmp_path)


def test_other_pins_are_another_recipe():
    assert install.environment_recipe(environments.ENGINE) != install.environment_recipe(environments.HARNESS)
    assert install.environment_recipe(environments.ENGINE) == install.environment_recipe(environments.ENGINE)
