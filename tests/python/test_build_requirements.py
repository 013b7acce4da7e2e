"""What pip takes to build a wheel, and what CMake accepts, is what the pinned versions stand for."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import tomllib
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent.parent

pytestmark = pytest.mark.cpu_only


def test_wheels_are_built_with_what_is_tested():
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    wanted = {r.name: r.specifier for r in map(Requirement, wanted)}
    pins = [Requirement(r) for r in (ROOT / "requirements" / "build.txt").read_text().split()]
    pinned = {r.name: next(iter(r.specifier)).version for r in pins}
    assert set(wanted) <= set(pinned)
    for name, accepted in wanted.items():
        assert pinned[name] in accepted
    # The module is made by functions of nanobind that 2.9 does not have yet, and 3.1 no more.
    assert not {"2.9.2", "3.1.0"} & set(wanted["nanobind"].filter(["2.9.2", "3.1.0"]))
    in_cmake = re.search(r'"nanobind(\S+)"', (ROOT / "python" / "CMakeLists.txt").read_text())[1]
    assert Requirement(f"nanobind{in_cmake}").specifier == wanted["nanobind"]


@pytest.mark.skipif(not shutil.which("cmake"), reason="no cmake")
def test_a_folder_of_rocm_that_is_not_there(tmp_path):
    command = ["cmake", "-S", ROOT, "-B", tmp_path / "b", f"-DROCM_PATH={tmp_path / 'none'}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode and f"there is no folder '{tmp_path / 'none'}'" in " ".join(
        done.stderr.split()
    )
