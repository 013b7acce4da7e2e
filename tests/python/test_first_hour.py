"""What a user does wrong in the first hour: each answer is an error of a class that fits, which names what was
called and what to do."""

import inspect
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np  # noqa: F401 (in what is evaluated)
import pytest

import pyflame as pf
from pyflame import _variables, nn

pytestmark = pytest.mark.cpu_only
ROOT = Path(__file__).resolve().parents[2]
MODEL = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
LAYER = MODEL[0]
SGD = pf.optim.SGD(LAYER.parameters(), lr=0.1, momentum=0.9)

CASES = {
    # Sizes of layers
    'nn.Linear(64 / 2, 4)': (TypeError, r"pf\.nn\.Linear: got in_features=32\.0; .*//"),
    'nn.Linear("20", 4)': (TypeError, r"pf\.nn\.Linear: got in_features='20'"),
    "nn.Linear(20)": (TypeError, r"Linear\.__init__\(\) missing .*'out_features'"),
    "nn.Embedding(10, 4.0)": (TypeError, r"pf\.nn\.Embedding: got embedding_dim=4\.0"),
    "nn.Conv2d(3.0, 8, 3)": (TypeError, r"pf\.nn\.Conv2d: got in_channels=3\.0"),
    "nn.Conv2d(3, 8)": (TypeError, r"^Conv2d\.__init__\(\) missing .*'kernel_size'"),
    "nn.Conv2d(3, 8, 3, pading=1)": (TypeError, r"^Conv2d\.__init__\(\) .*'pading'"),
    "nn.Conv2d(3, 8, 3.5)": (TypeError, r"pf\.nn\.Conv2d: got kernel_size=3\.5; .*2 of them"),
    "nn.Conv1d(3, 8, 'same')": (TypeError, r"pf\.nn\.Conv1d: got kernel_size='same'"),
    "nn.BatchNorm2d(8.0)": (TypeError, r"pf\.nn\.BatchNorm2d: got num_features=8\.0"),
    "nn.LayerNorm(8.0)": (TypeError, r"pf\.nn\.LayerNorm: got normalized_shape=8\.0"),
    "nn.RMSNorm('8')": (TypeError, r"pf\.nn\.RMSNorm: got normalized_shape='8'"),
    "nn.Dropout('0.5')": (TypeError, r"pf\.nn\.Dropout: got p='0\.5'; .*float"),
    "nn.LSTM(4.0, 8)": (TypeError, r"pf\.nn\.LSTM: got input_size=4\.0"),
    "nn.MaxPool2d()": (TypeError, r"^MaxPool2d\.__init__\(\) missing"),
    "pf.distributions.Normal(0)": (TypeError, r"^Normal\.__init__\(\) missing .*'scale'"),
    # Models
    "nn.Sequential(nn.Linear, nn.ReLU())": (TypeError, r"got the class Linear; .*Linear\(\.\.\.\)"),
    "nn.Sequential(LAYER, pf.relu)": (TypeError, r"pf\.nn\.Sequential: .*; expected modules"),
    "nn.ModuleList(LAYER)": (TypeError, r"pf\.nn\.ModuleList: got one Linear; .*list"),
    "nn.ModuleList([1])": (TypeError, r"pf\.nn\.ModuleList: int .*expected modules"),
    "LAYER.train(3)": (ValueError, r"pf\.nn\.Module\.train: got mode=3 .*True or False"),
    "LAYER(pf.ones(2, 5))": (ValueError, r"pf\.linear: got input \[2, 5\] and weight \[4, 3\]; .*in_features"),
    "LAYER([1.0, 2.0, 3.0])": (TypeError, r"pf\.linear: .*'input' must be a Tensor, not list of float"),
    "LAYER(np.ones(3, np.float32))": (TypeError, r"pf\.linear: .*from_numpy"),
    # Optimizers
    "pf.optim.Adam(LAYER)": (TypeError, r"pf\.optim\.Adam: got Linear; .*model\.parameters\(\)"),
    "pf.optim.SGD(LAYER.parameters)": (TypeError, r"pf\.optim\.SGD: got method .*call it"),
    "pf.optim.Adam(MODEL)": (TypeError, r"pf\.optim\.Adam: .*pass model\.parameters\(\)"),
    "pf.optim.Adam(3)": (TypeError, r"pf\.optim\.Adam: got int; .*list"),
    "pf.optim.Adam(LAYER.parameters(), lr='0.1')": (TypeError, r"pf\.optim\.Adam: got lr='0\.1'; .*float\(\)"),
    "pf.optim.Adam(LAYER.parameters(), lr=None)": (TypeError, r"pf\.optim\.Adam: got lr=None"),
    "pf.optim.AdamW(LAYER.parameters(), betas=('0.9', '0.99'))": (TypeError, r"pf\.optim\.AdamW: got betas="),
    "pf.optim.SGD(LAYER.parameters(), weight_decay='1e-4')": (TypeError, r"got weight_decay='1e-4'"),
    "pf.optim.SGD(LAYER.parameters()).add_param_group([])": (TypeError, r"pf\.optim\.SGD.*got list; expected a dict"),
    "pf.optim.SGD(LAYER.parameters()).step(3)": (TypeError, r"pf\.optim\.SGD\.step: got int; expected nothing, or"),
    "pf.optim.lr_scheduler.StepLR(LAYER, 3)": (TypeError, r"pf\.optim\.lr_scheduler\.StepLR: Linear is not an Opt"),
    "pf.optim.lr_scheduler.StepLR(SGD, '3')": (TypeError, r"pf\.optim\.lr_scheduler\.StepLR: got step_size='3'; .*int\(\)"),
    "pf.optim.lr_scheduler.ExponentialLR(SGD, '0.9')": (TypeError, r"ExponentialLR: got gamma='0\.9'; .*float\(\)"),
    "pf.optim.lr_scheduler.LinearLR(SGD, total_iters='3')": (TypeError, r"LinearLR: got total_iters='3'"),
    "pf.optim.lr_scheduler.MultiStepLR(SGD, 30)": (TypeError, r"MultiStepLR: got milestones=30; .*list"),
    "pf.optim.lr_scheduler.MultiStepLR(SGD, ['30'])": (TypeError, r"MultiStepLR: got milestones='30'; .*numbers"),
    "pf.optim.lr_scheduler.OneCycleLR(SGD, '0.1', 3)": (TypeError, r"lr_scheduler: got max_lr='0\.1'; .*float"),
    "pf.optim.lr_scheduler.LambdaLR(SGD, 3)": (TypeError, r"LambdaLR: got lr_lambda=3; .*function of the epoch"),
    "pf.optim.lr_scheduler.MultiplicativeLR(SGD, None)": (TypeError, r"MultiplicativeLR: got lr_lambda=None"),
    "nn.utils.clip_grad_norm_(LAYER, 1.0)": (TypeError, r"pf\.nn\.utils\.clip_grad_norm_: got Linear; .*parameters\(\)"),
    "nn.utils.clip_grad_value_(LAYER.parameters, 1.0)": (TypeError, r"pf\.nn\.utils\.clip_grad_value_: .*call it"),
    # Data
    "pf.utils.data.TensorDataset([1, 2])": (TypeError, r"TensorDataset: got list as or in '\*tensors'.*expected Tensors"),
    "pf.utils.data.DataLoader([1], batch_size='4')": (ValueError, r"but got '4'"),
    "pf.utils.data.random_split([1, 2, 3], [0.5, 0.6])": (ValueError, r"random_split: .*fractions that sum to 1"),
    # Tensors
    "pf.zeros(2.5)": (TypeError, r"pf\.zeros: .*'size' must be a tuple of ints, not float"),
    "pf.zeros((2, 3 / 1))": (TypeError, r"pf\.zeros: .*not tuple of int and float"),
    "pf.zeros(3, dtype=np.float32)": (TypeError, r"'dtype' must be a dtype or None, not the class numpy\.float32"),
    "pf.cat([pf.ones(2), 3])": (TypeError, r"pf\.cat: got \(list of Tensor and int\)"),
    "pf.cat(pf.ones(2), pf.ones(2))": (TypeError, r"'tensors' must be a tuple or list of Tensors, not Tensor\[2\]"),
    "pf.ones(2).to('float32')": (pf.DeviceError, r"pf\.device: got 'float32'; .*a dtype: pass pf\.float32, without"),
    "LAYER.to('double')": (pf.DeviceError, r"a dtype: pass pf\.double, without quotes"),
    # Names
    "pf.optm": (AttributeError, r"'optm'; did you mean 'optim'\?"),
    "pf.Float32": (AttributeError, r"'Float32'; did you mean 'float32'\?"),
    "pf.jit.script": (AttributeError, r"'jit'; torch\.jit is there for programs under `pyflame run`"),
    "pf.matrix_rank": (AttributeError, r"use linalg\.matrix_rank"),
    "pf.nothing_like_it_at_all": (AttributeError, r"no attribute 'nothing_like_it_at_all'$"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", CASES)
def test_answer(mistake):
    error, words = CASES[mistake]
    with pytest.raises(error) as caught:
        eval(mistake)
    assert re.search(words, str(caught.value)), str(caught.value)


def test_programs_are_told_the_name_that_was_meant():
    text = "import torch\nfor n in ('Relu', 'liner', 'layernorm'):\n" \
        "  try: getattr(torch.nn, n)\n  except AttributeError as e: print(e)"  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "pyflame", "run", "-c", text],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert re.findall(r"did you mean torch\.nn\.(\w+)\?", done.stdout) == [
        "ReLU",
        "Linear",
        "LayerNorm",
    ]


@pytest.mark.parametrize("place", [nn, pf.distributions, pf.optim, pf.optim.lr_scheduler], ids=str)
def test_constructors_have_the_names_of_their_classes(place):
    kinds = {n: k for n, k in vars(place).items() if isinstance(k, type) and not n.startswith("_")}
    assert len(kinds) > 10
    for name, kind in kinds.items():
        init = inspect.unwrap(kind.__init__) if inspect.isfunction(kind.__init__) else kind.__init__
        assert not init.__qualname__.startswith("_"), (name, init.__qualname__)


# ---- the environment ----------------------------------------------------------------------------


def test_all_variables_that_are_read_are_known():
    read = set()
    for folder in ("src", "python/src", "python/pyflame"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".py", ".cpp", ".h"):
                read |= set(re.findall(r'"(PYFLAME_[A-Z0-9_]*[A-Z0-9])"', path.read_text()))
    read -= {"PYFLAME_USE"}
    assert read == _variables.KNOWN


def test_variables_of_tests_and_tools_are_no_mistakes():
    names = set()
    for path in [*(ROOT / "tests").rglob("*.py"), *(ROOT / "tests").rglob("*.sh"), *(ROOT / "tests").rglob("*.cpp"),
                 *(ROOT / "tools").iterdir(), *(ROOT / "benchmarks").rglob("*.py"), ROOT / "CMakeLists.txt"]:  # fmt: skip
        if path.is_file() and path != Path(__file__):
            names |= set(
                re.findall(r"\bPYFLAME_[A-Z0-9_]*[A-Z0-9]\b", path.read_text(errors="ignore"))
            )
    assert len(names) > 40 and not _variables.misspelt(names)


@pytest.mark.parametrize("name, meant", [
    ("PYFLAME_GEM", "PYFLAME_GEMM"), ("PYFLAME_EAGR", "PYFLAME_EAGER"),
    ("PYFLAME_NUM_THREAD", "PYFLAME_NUM_THREADS"), ("PYFLAME_STRICTT", "PYFLAME_STRICT"),
])  # fmt: skip
def test_a_misspelt_variable_is_told(name, meant):
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYFLAME_")}
    done = subprocess.run(
        [sys.executable, "-c", "import pyflame"],
        env=env | {name: "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and f"{name}; did you mean {meant}?" in done.stderr, done.stderr
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert _variables.misspelt([meant]) == []


def test_an_unknown_product_is_told():
    env = os.environ | {"PYFLAME_GEMM": "mkl"}
    code = "import pyflame as pf; print((pf.ones(64, 64) @ pf.ones(64, 64))[0, 0].item())"
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.stdout == "64.0\n"
    assert "PYFLAME_GEMM='mkl' is ignored: expected onednn or own" in done.stderr
