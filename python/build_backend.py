"""Build backend of `pip install [-e] python/`: it finds the parent project.

An editable install builds the parent with plain CMake into its build/ directory (what stands there
is reused) and writes a wheel that only points here. A wheel comes from the parent's own backend.
"""

import base64
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent


def _requirements():
    lines = (ROOT / "requirements" / "build.txt").read_text().split()
    return [line for line in lines if not line.startswith("numpy")]


def get_requires_for_build_editable(config_settings=None):
    return [] if os.environ.get("PYFLAME_BUILT") else _requirements()


def get_requires_for_build_wheel(config_settings=None):
    return _requirements()


def get_requires_for_build_sdist(config_settings=None):
    return _requirements()


def build_wheel(directory, config_settings=None, metadata_directory=None):
    from scikit_build_core.build import build_wheel as build

    os.chdir(ROOT)
    return build(directory, config_settings)


def build_sdist(directory, config_settings=None):
    from scikit_build_core.build import build_sdist as build

    os.chdir(ROOT)
    return build(directory, config_settings)


def _project():
    """Name, version and the like from the parent's files."""
    import re

    text = (ROOT / "pyproject.toml").read_text()
    version = re.search(
        r"project\(pyflame VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text()
    )

    def field(name):
        return re.search(rf"^{name} = (.*)$", text, re.MULTILINE).group(1)

    def strings(name):
        return re.findall(r'"([^"]+)"', field(name))

    return {
        "version": version.group(1),
        "summary": strings("description")[0],
        "python": strings("requires-python")[0],
        "dependencies": strings("dependencies"),
        "scripts": re.search(r"\[project.scripts\]\n((?:\w.*\n)+)", text).group(1),
    }


def _nanobind(build):
    """The option for CMake that names a copy of nanobind in the build directory: pip deletes the
    environment that has it, and `make` there should go on working."""
    run = subprocess.run(
        [sys.executable, "-P", "-m", "nanobind", "--cmake_dir"], capture_output=True, text=True
    )
    if run.returncode:
        return []  # CMake says what is missing
    shutil.copytree(Path(run.stdout.strip()).parent, build / "nanobind", dirs_exist_ok=True)
    return [f"-Dnanobind_DIR={build}/nanobind/cmake"]


def _build():
    """Makes the module for this Python where there is none; what `cmake ..` configured stays."""
    build = ROOT / "build"
    if (HERE / "pyflame" / f"_C{sysconfig.get_config_var('EXT_SUFFIX')}").exists() and (
        build / "CMakeCache.txt"
    ).exists():
        return
    # With the source: pip calls from this folder, which is not the project's.
    command = ["cmake", "-S", str(ROOT), "-B", str(build), f"-DPython_EXECUTABLE={sys.executable}"]
    if (build / "CMakeCache.txt").exists():
        # Configured without this Python: `cmake ..` alone is enough for C++.
        command += ["-DPYFLAME_BUILD_PYTHON=ON"]
    else:
        command += ["-DPYFLAME_BUILD_TESTS=OFF"]
        if subprocess.run(["ninja", "--version"], capture_output=True).returncode == 0:
            command += ["-G", "Ninja"]
    subprocess.run([*command, *_nanobind(build)], check=True)
    jobs = str(os.cpu_count() or 2)
    subprocess.run(["cmake", "--build", str(build), "-j", jobs, "--target", "_C"], check=True)


def build_editable(directory, config_settings=None, metadata_directory=None):
    if not os.environ.get("PYFLAME_BUILT"):
        _build()
    project = _project()
    info = f"pyflame-{project['version']}.dist-info"
    metadata = (
        f"Metadata-Version: 2.1\nName: pyflame\nVersion: {project['version']}\n"
        f"Summary: {project['summary']}\nRequires-Python: {project['python']}\n"
    )
    metadata += "".join(f"Requires-Dist: {d}\n" for d in project["dependencies"])
    files = {
        "pyflame-editable.pth": f"{HERE}\n",
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": (
            "Wheel-Version: 1.0\nGenerator: pyflame\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        ),
        f"{info}/entry_points.txt": "[console_scripts]\n" + project["scripts"].replace('"', ""),
    }
    record = ""
    for name, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=")
        record += f"{name},sha256={digest.decode()},{len(text.encode())}\n"
    files[f"{info}/RECORD"] = record + f"{info}/RECORD,,\n"
    wheel = f"pyflame-{project['version']}-py3-none-any.whl"
    with zipfile.ZipFile(Path(directory) / wheel, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return wheel
