"""Writes what the programs say under PyTorch, which tests/python/test_library_programs.py compares with:

    python tests/programs/record.py [NAME ...]

by a Python that has PyTorch and the packages (requirements/programs.txt).
"""

import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
PACKAGES = "torch transformers datasets peft trl accelerate lightning diffusers timm torchvision torchaudio torch-geometric"
names = sys.argv[1:] or [
    p.stem
    for p in sorted(FOLDER.glob("*.py"))
    if p.stem not in ("made_up", "many_layers", "many_models", "record")
]
for name in names:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", FOLDER / f"{name}.py"], capture_output=True, text=True
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith('["')]
    if done.returncode or not lines:
        sys.exit(f"{name}: {done.stderr[-2000:]}")
    source = (FOLDER / f"{name}.py").read_text()
    versions = {
        p: importlib.metadata.version(p) for p in PACKAGES.split() if p.replace("-", "_") in source
    }
    (FOLDER / "reference").mkdir(exist_ok=True)
    (FOLDER / "reference" / f"{name}.jsonl").write_text(
        "\n".join([json.dumps(versions), *lines]) + "\n"
    )
    print(name, len(lines))
