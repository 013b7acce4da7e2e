"""The Python blocks of the documentation run as they stand there, those of one page in their order."""

import importlib.util
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import standin

import pyflame as pf

ROOT = Path(__file__).resolve().parent.parent.parent
cache, run = standin.cache, standin.run  # fixtures

# What a page speaks of without making it. A page imports what it uses: here that has another name.
GIVEN = {
    "docs/devices.md": "first, second = _pf.nn.Linear(784, 8), _pf.nn.Linear(8, 4)",
    "docs/files.md": "model, step, w = Net(), 3, _pf.ones(2)\n"
    "optimizer = _pf.optim.AdamW(model.parameters())",
    "docs/memory.md": "batch = _pf.randn(16, 4)\n"
    "work = lambda: (_pf.ones(64, device='gpu') * 2).sum()",
    "docs/mixed_precision.md": "loader = [(_pf.randn(4, 3), _pf.zeros(4).long())] * 2",
    "docs/performance.md": "train_step = lambda: (_pf.randn(70, 80) @ _pf.randn(80, 90)).sum()",
}
START = """
import pyflame as _pf
Net = lambda: _pf.nn.Linear(3, 2)
"""
GPU = ["docs/devices.md", "docs/gpu.md", "docs/memory.md"]


def program(page):
    """The page's blocks, as lines of the same numbers, after what is given."""
    text = (ROOT / page).read_text()
    lines = [""] * text.count("\n")
    for block in re.finditer(r"```python\n(.*?)```", text, re.S):
        first = text[: block.start()].count("\n") + 1
        body = block[1].splitlines()
        lines[first : first + len(body)] = body
    source = "\n".join(lines)
    return f"{START}{GIVEN.get(page, '')}\nexec(compile({source!r}, {page!r}, 'exec'), globals())\n"


def pages():
    found = ["README.md", *(str(p.relative_to(ROOT)) for p in sorted((ROOT / "docs").glob("*.md")))]
    return [p for p in found if "```python" in (ROOT / p).read_text() and p not in GPU]


@pytest.mark.cpu_only
@pytest.mark.parametrize("page", pages())
def test_page(page, tmp_path):
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYFLAME_")}
    env |= {
        "PYTHONPATH": str(standin.PACKAGE),
        "XDG_CACHE_HOME": str(tmp_path),
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", program(page)], cwd=tmp_path, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", [pytest.param(p, marks=standin.MARKS) for p in GPU])
def test_page_about_gpus(page, run):
    run(program(page), PYFLAME_STANDIN_DEVICES=2)


@pytest.mark.cpu_only
def test_all_layers_are_listed_and_tested(tmp_path):
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    assert generate.write_layers(tmp_path / "layers.md") > 250
    page = (tmp_path / "layers.md").read_text()
    tests = "".join(p.read_text() for p in (ROOT / "tests" / "python").rglob("*.py"))
    kinds = [n for m in (pf.nn, pf.optim) for n in m.__all__ if inspect.isclass(getattr(m, n))]
    unlisted = [n for n in kinds if f"* `{n}`" not in page]
    # Of layers for one to three dimensions tests make the name.
    untested = [n for n in kinds if not re.search(rf"\b{re.sub(r'[123]d$', '', n)}", tests)]
    assert not unlisted and not untested, (unlisted, untested)


def missing_of(text):
    """Names in code of what a text says is not there (yet)."""
    sentences = re.split(
        r"(?<=[.;:])\s+|\n\s*\n|^\s*\* ", re.sub(r"```.*?```", "", text, flags=re.S), flags=re.M
    )
    for sentence in sentences:
        if re.search(r"\b(is|are)\s+not\s+(there|implemented|supported)\b|\bnot\s+yet\b", sentence):
            yield from re.findall(r"`([\w.]+)`", sentence)


@pytest.mark.cpu_only
def test_what_pages_miss_is_not_there():
    assert [*missing_of("It is. `Resize` is not\nthere yet. `Crop` is.")] == ["Resize"]
    places = [pf, pf.nn, pf.nn.functional, pf.nn.utils, pf.optim, pf.linalg, pf.transforms, pf.Tensor,
              pf.utils.data, pf.distributions, pf.models, pf.datasets]  # fmt: skip
    for page in [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for name in missing_of(page.read_text()):
            last = name.removeprefix("pf.").removeprefix("torch.").split(".")[-1]
            assert not any(hasattr(place, last) for place in places), f"{page.name}: {name}"
