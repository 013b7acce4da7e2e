"""The installation that the seed documents print, in a bare clone and an environment of its own: CMake
and make first, then pip from the build directory (BLD-05).

By default what takes minutes, the compiler, is left out: CMake configures, and pip's hook is called as
pip does it. PYFLAME_TEST_INSTALLATION=1 runs the printed lines to their end, with pip and the network.
"""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
WHOLE = os.environ.get("PYFLAME_TEST_INSTALLATION", "") not in ("", "0")

pytestmark = [
    pytest.mark.cpu_only,
    pytest.mark.skipif(not (ROOT / ".git").exists(), reason="what belongs to a clone, git knows"),
    pytest.mark.skipif(not shutil.which("cmake"), reason="no cmake"),
]


@pytest.fixture
def clone(tmp_path):
    """What a clone of this state would have."""
    names = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "-z"], check=True, capture_output=True, text=True
    ).stdout.split("\0")
    for name in filter(None, names):
        if not name.startswith(("tests/results/", "benchmarks/")) and (ROOT / name).exists():
            (tmp_path / "clone" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tmp_path / "clone" / name)
    return tmp_path / "clone"


def run(command, folder, **environment):
    env = {
        k: v for k, v in os.environ.items() if not k.startswith(("PYFLAME_", "PYTHON", "VIRTUAL"))
    }
    done = subprocess.run(
        command, cwd=folder, env=env | environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def settings(build):
    lines = (build / "CMakeCache.txt").read_text().splitlines()
    return {line.split(":")[0]: line.partition("=")[2] for line in lines if ":" in line}


# In place of CMake, before it on the PATH: builds are written down, all else is CMake's.
BUILDS_NOTHING = """#!/bin/sh
if [ "$1" = --build ]; then echo "$@" >>"$NOTED"; else exec {cmake} "$@"; fi
"""
# As pip: in the folder of the backend, with what its environment has.
HOOK = "import sys; sys.path.insert(0, '.'); import build_backend as b; print(b.build_editable(sys.argv[1]))"


@pytest.fixture
def pip_hook(tmp_path, clone):
    shim = tmp_path / "bin" / "cmake"
    shim.parent.mkdir()
    shim.write_text(BUILDS_NOTHING.format(cmake=shutil.which("cmake")))
    shim.chmod(0o755)

    def call():
        wheel = run(
            [sys.executable, "-P", "-c", HOOK, str(tmp_path)],
            clone / "python",
            PATH=f"{shim.parent}:{os.environ['PATH']}",
            NOTED=str(tmp_path / "noted"),
        ).split()[-1]
        return tmp_path / wheel, (tmp_path / "noted").read_text().splitlines()

    return call


@pytest.mark.parametrize("options", [
    ["-DPYFLAME_USE_ROCM=ON"],  # as printed
    ["-DPYFLAME_BUILD_PYTHON=OFF", "-DPYFLAME_BUILD_TESTS=OFF"],  # C++ alone
    None,  # no CMake before pip
])  # fmt: skip
def test_pip_builds_where_cmake_has_configured(clone, pip_hook, options):
    build = clone / "build"
    if options is not None:
        build.mkdir()
        run(["cmake", *options, ".."], build)
    wheel, builds = pip_hook()
    assert len(builds) == 1 and builds[0].startswith(f"--build {build} "), builds
    assert builds[0].endswith("--target _C")
    made = settings(build)
    assert made["CMAKE_HOME_DIRECTORY"] == str(clone)
    assert made["Python_EXECUTABLE"] == sys.executable
    assert made["PYFLAME_BUILD_PYTHON"] != "OFF"
    for option in options or []:
        name, value = option.removeprefix("-D").split("=")
        assert made[name] == value or name == "PYFLAME_BUILD_PYTHON"
    # pip deletes the environment that has nanobind; later calls of make have it still.
    assert Path(made["nanobind_DIR"]).is_relative_to(build) and Path(made["nanobind_DIR"]).is_dir()
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read("pyflame-editable.pth").decode() == f"{clone}/python\n"


@pytest.mark.skipif(
    not WHOLE, reason="PYFLAME_TEST_INSTALLATION=1 compiles everything, with the network"
)
def test_as_printed(clone, tmp_path):
    out = run(
        ["bash", "-euxc", """
        python3 -m venv ../environment
        . ../environment/bin/activate
        mkdir build
        cd build
        cmake -DPYFLAME_USE_ROCM=ON ..
        make -j$(nproc)
        pip install -q -e ../python
        make -j$(nproc) # once more, without the environment that pip had for the build
        cmake -L . | grep ROCM
        cd /
        python -c "import pyflame as pf; print(pf.__file__, (pf.eye(3) * 2 @ pf.ones(3)).tolist())"
        """],
        clone,
        CCACHE_BASEDIR=str(clone), CCACHE_NOHASHDIR="1",
    )  # fmt: skip
    assert "PYFLAME_USE_ROCM:BOOL=ON" in out
    assert out.splitlines()[-1] == f"{clone}/python/pyflame/__init__.py [2.0, 2.0, 2.0]"
