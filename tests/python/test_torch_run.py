"""`pyflame run`: a program that imports torch gets PyFlame, and sees what python would show it."""

import json
import os
import re
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest

import pyflame as pf
from pyflame._torch import check, missing
from pyflame._torch.version import TorchVersion

pytestmark = pytest.mark.cpu_only
PACKAGE = str(Path(pf.__file__).parent.parent)


def start(*words, cwd, module="pyflame", env=(), **how):
    env = dict(os.environ, PYTHONPATH=PACKAGE, PYTHONWARNINGS="ignore", **dict(env))
    command = [sys.executable, *(["-m", module] if module else []), *map(str, words)]
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, **how)


def run(text, *args, cwd, **how):
    """What a program prints under `pyflame run`."""
    path = Path(cwd) / "program.py"
    path.write_text(textwrap.dedent(text))
    done = start("run", path, *args, cwd=cwd, **how)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_torch_is_pyflame(tmp_path):
    out = run(
        """
        import importlib.metadata, importlib.util, sys
        import torch, torch.nn as nn, torch.nn.functional as F, torch.utils.data.dataloader
        from torch import optim, Tensor
        from torch.nn.modules.conv import _ConvNd
        from torch.nn.modules.utils import _pair
        from torch.optim.lr_scheduler import LambdaLR
        from torch.utils.data import DataLoader
        import pyflame

        assert torch.Tensor is pyflame.Tensor is Tensor and nn.Linear is pyflame.nn.Linear
        assert F.relu is pyflame.nn.functional.relu and optim.SGD is pyflame.optim.SGD
        assert torch.utils.data.dataloader.DataLoader is DataLoader is pyflame.utils.data.DataLoader
        assert issubclass(nn.Conv2d, _ConvNd) and _pair(3) == (3, 3) and _pair([1, 2]) == (1, 2)
        assert torch.__version__ == "2.13.0+pyflame" and torch.__version__ >= (2, 1)
        assert importlib.metadata.version("torch") == "2.13.0+pyflame"
        assert importlib.util.find_spec("torch.nn") and not importlib.util.find_spec("torch.nope")
        assert torch.float is pyflame.float32 and torch.inf == float("inf")
        assert isinstance(torch.ones(2), torch.FloatTensor)

        # Switches, and functions that programs put in place of ours.
        torch.backends.cudnn.benchmark = True
        assert pyflame.backends.cudnn.benchmark is True is torch.backends.cudnn.benchmark
        seen = []
        torch.nn.init.kaiming_uniform_ = lambda *a, **k: seen.append(1)
        assert pyflame.nn.init.kaiming_uniform_ is torch.nn.init.kaiming_uniform_
        nn.Linear(2, 2)
        torch.mine = 3
        assert torch.mine == 3 and not hasattr(pyflame, "mine")
        assert pyflame.utils.data.__path__ and pyflame.__name__ == "pyflame"

        for name in ("nope", "_C_nope", "Lienar"):
            assert not hasattr(torch, name) and not hasattr(nn, name)
        from torch import *
        print(ones(2).sum().item(), "relu" in globals(), "sum" in globals() and sum is torch.sum)
        """,
        cwd=tmp_path,
    )
    assert out == "2.0 True False\n"


def test_what_is_missing_says_so(tmp_path):
    out = run(
        """
        import torch
        for text in ("torch.nope", "torch.nn.Lineer", "torch.hpu", "import torch.nope",
                     "import torch.nope.inside", "from torch.nn import Linear, Lineer",
                     "from torch.nn.functional import reluu", "torch.classes.mine.Thing"):
            try:
                exec(text)
            except (AttributeError, ImportError) as e:
                print(type(e).__qualname__, e)
        """,
        cwd=tmp_path,
    ).splitlines()
    assert [line.split(" is not")[0] for line in out] == [
        "AttributeError torch.nope",
        "AttributeError torch.nn.Lineer",
        "AttributeError torch.hpu",
        "ModuleNotFoundError torch.nope",
        "ModuleNotFoundError torch.nope",
        "ImportError torch.nn.Lineer",
        "ImportError torch.nn.functional.reluu",
        "AttributeError torch.classes.mine.Thing",
    ]
    assert all("is not in PyFlame; " in line for line in out)
    assert "did you mean torch.nn.Linear?" in out[1] and "torch.accelerator" in out[2]


PROGRAM = """
import sys

class Own(Exception):
    pass

def inner(how):
    if how == "exit":
        sys.exit(7)
    if how == "words":
        sys.exit("some words")
    if how == "stop":
        raise KeyboardInterrupt
    if how == "chain":
        try:
            1 / 0
        except ZeroDivisionError as e:
            raise Own("again") from e
    if how == "hook":
        sys.excepthook = lambda *a: print("hooked", a[0].__name__, a[2].tb_frame.f_code.co_name)
    if how != "fine":
        raise ValueError("bad")

main = sys.modules["__main__"]
print(__name__, __file__, sys.argv, sys.path[0], __package__, __spec__, __doc__, __builtins__)
print(type(__loader__).__name__, main.__dict__ is globals(), sorted(globals()))
inner(sys.argv[1])
"""


def shown(done):
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("how", ["fine", "exit", "words", "stop", "chain", "hook", "raise"])
def test_a_script_sees_what_python_shows(tmp_path, how):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "program.py").write_text(PROGRAM)
    words = ["in/program.py", how, "--flag", "-m"]
    assert shown(start(*words, cwd=tmp_path, module=None)) == shown(
        start("run", *words, cwd=tmp_path)
    )


def test_other_ways_to_name_a_program(tmp_path):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    tell = "import sys\n__file__ = globals().get('__file__')\nprint(__name__, sys.argv, sys.path[0], __package__, __file__)\n"
    (tmp_path / "package" / "__main__.py").write_text(tell)
    (tmp_path / "package" / "inner.py").write_text(tell)
    (tmp_path / "broken.py").write_text("x = (\n")
    with zipfile.ZipFile(tmp_path / "archive.pyz", "w") as z:
        z.writestr("__main__.py", tell)
    for words in (["-m", "package", "a"], ["-m", "package.inner", "-x"], ["package", "a"],
                  ["archive.pyz"], ["-c", tell, "b"], ["-"]):  # fmt: skip
        by_python = start(*words, cwd=tmp_path, module=None, input=tell)
        ours = start("run", *words, cwd=tmp_path, input=tell)
        if words[0] == "-m" and not by_python.returncode:
            # python -m has its folder in full.
            assert ours.stdout == by_python.stdout
        assert shown(ours) == shown(by_python), words
    broken = start("run", "broken.py", cwd=tmp_path)
    assert (broken.returncode, broken.stderr) == (
        1,
        start("broken.py", cwd=tmp_path, module=None).stderr,
    )
    assert start("--", "package", cwd=tmp_path, module="pyflame.run").returncode == 0


def test_wrong_commands(tmp_path):
    for words, text in (
        (["no.py"], "can't open file.*no.py'"),
        (["-m", "nope"], "No module named nope"),
        (["-m", "json.nope.x"], "json.nope"),
        (["-m"], "argument expected"),
        (["--fast", "x.py"], "unknown option --fast"),
        (["."], "can't find '__main__'"),
        ([], "usage: pyflame run"),
    ):
        done = start("run", *words, cwd=tmp_path)
        assert done.returncode == 2 and re.search(text, done.stderr), (words, done.stderr)
    done = start("run", "--help", cwd=tmp_path)
    assert done.returncode == 0 and "-m MODULE" in done.stdout
    assert "run" in start("--help", cwd=tmp_path).stdout


CHILDREN = """
import copy, multiprocessing as mp, pickle, sys
import torch
from torch.utils.data import DataLoader, Dataset

class Squares(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        import torch as again
        assert again is torch
        return torch.tensor(i * i)

def tell(queue):
    import pyflame
    queue.put((torch.Tensor is pyflame.Tensor, torch.__version__, sys.argv[1]))

if __name__ == "__main__":
    for method in ("spawn", "forkserver", "fork"):
        context = mp.get_context(method)
        queue = context.Queue()
        process = context.Process(target=tell, args=(queue,))
        process.start()
        print(queue.get())
        process.join()
    for method in ("spawn", "fork"):
        loader = DataLoader(Squares(), batch_size=2, num_workers=1, multiprocessing_context=method)
        print([batch.tolist() for batch in loader])
    layer = torch.nn.Linear(2, 2)
    for value in (torch.float32, torch.device("cpu"), torch.Size([1]), torch.relu, Squares(), layer,
                  torch.nn.functional.relu, torch.nn.Linear, torch.__version__, torch.ones(2),
                  torch.channels_last, torch.optim.AdamW, torch.Tensor, torch.FloatTensor,
                  torch.optim.SGD(layer.parameters(), lr=0.1), torch.Generator(), torch.strided):
        for back in (pickle.loads(pickle.dumps(value)), copy.deepcopy(value)):
            assert type(back) is type(value)
            assert not isinstance(value, type) or back is value
"""


def test_children_keep_it(tmp_path):
    out = run(CHILDREN, "word", cwd=tmp_path).splitlines()
    assert out[:3] == ["(True, '2.13.0+pyflame', 'word')"] * 3
    assert out[3:] == ["[[0, 1], [4, 9]]"] * 2


def test_pytorch_that_was_imported_before(tmp_path):
    (tmp_path / "torch.py").write_text("")
    text = "import torch, pyflame.run; pyflame.run.install()"
    done = start("-c", text, cwd=tmp_path, module=None)
    assert "RuntimeError: pf.run: PyTorch itself has been imported before" in done.stderr


VERSIONS = ["1.13.1", "2.0", "2.9.1", "2.13.0.dev20260101", "2.13.0a0", "2.13.0rc1", "2.13",
            "2.13.0+cu118", "2.13.0+pyflame", "2.13.0.post1", "2.13.1", "3"]  # fmt: skip


def test_versions_compare_as_versions():
    packaging = pytest.importorskip("packaging.version")
    for a in VERSIONS:
        for b in VERSIONS:
            va, vb = packaging.Version(a), packaging.Version(b)
            ta = TorchVersion(a)
            assert (ta < b, ta <= b, ta == b, ta > b, ta >= b, ta != b) == (
                va < vb, va <= vb, va == vb, va > vb, va >= vb, va != vb), (a, b)  # fmt: skip
    ours = TorchVersion("2.13.0+pyflame")
    assert ours > (2, 9) and ours >= (2, 13, 0) and ours < (3,) and isinstance(ours, str)
    assert ours == "2.13.0+pyflame" and hash(ours) == hash("2.13.0+pyflame")
    assert ours != "nonsense" and ours.split("+")[0] == "2.13.0" and ours != 3


# ---- pyflame check --------------------------------------------------------------------------------

USES = """
import torch, os
import torch.nn as nn
from torch.nn import functional as F, Lineer
from torch.utils.data import *

G = torch.nn.functional


def f(x, torch_like, F):
    F.not_torch(x)
    return torch.relu(x) + torch.reluu(x)


class Net(nn.Modul):
    def forward(self, x):
        torch = self.other
        torch.not_torch_either(x)
        return G.gelu(x) + G.geluu(x)


try:
    import torch.nope
except ImportError:
    pass
if hasattr(torch, "nope_too"):
    torch.nope_too()
getattr(torch, "reluuu")(1)
F.relu(os.path.nope)
torch.Tensor.nope
torch.float32.nope
DataLoader
"""


def test_check(tmp_path):
    (tmp_path / "a.py").write_text(USES)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "broken.py").write_text("x = (\n")
    cells = [
        {"cell_type": "code", "source": ["%matplotlib inline\n", "import torch\n", "torch.xx"]}
    ]
    (tmp_path / "n.ipynb").write_text(json.dumps({"cells": cells}))
    done = start("check", tmp_path, "--json", cwd=tmp_path)
    report = json.loads(done.stdout)
    assert done.returncode == 1 and report["files"] == 2
    found = [(m["name"], m["line"], m["guarded"]) for m in report["missing"]]
    assert found == [
        ("torch.nn.Lineer", 4, False),
        ("torch.reluu", 12, False),
        ("torch.nn.Modul", 15, False),
        ("torch.nn.functional.geluu", 19, False),
        ("torch.nope", 23, True),
        ("torch.nope_too", 27, True),
        ("torch.reluuu", 28, False),
        ("torch.Tensor.nope", 30, False),
        ("torch.xx", 3, False),
    ]
    assert report["names"]["torch.relu"] == 1 and report["names"]["torch.nn.functional.gelu"] == 1
    assert "SyntaxError" in report["unread"][0]["why"]
    words = start("check", "a.py", cwd=tmp_path)
    first = "a.py:4: torch.nn.Lineer is not in PyFlame; did you mean torch.nn.Linear?"
    assert words.returncode == 1 and words.stdout.startswith(first)
    assert "the program goes on without" in words.stdout

    (tmp_path / "fine.py").write_text("import torch\nprint(torch.ones(1).nope)\n")
    fine = start("check", "fine.py", cwd=tmp_path)
    assert (fine.returncode, fine.stdout) == (
        0,
        "1 file, 2 names of torch, 2 of them here, 0 missing\n",
    )
    (tmp_path / "names.py").write_text("from torch.distributed import isend as i\ni()\n")
    named = start("check", "names.py", cwd=tmp_path)
    assert named.returncode == 0 and "names.py:1: torch.distributed.isend is here in name" in (
        named.stdout)  # fmt: skip
    both = start("check", "names.py", "fine.py", "./b/../fine.py", "fine.py", cwd=tmp_path)
    assert (
        "3 files, 3 names of torch, 3 of them here" in both.stdout and "names.py:1" in both.stdout
    )
    for path, status in (("nowhere", 1), ("b", 1)):
        assert start("check", path, cwd=tmp_path).returncode == status


def test_check_survives_its_files(tmp_path):
    for i, text in enumerate([b"\0", b"\xff\xfe", b"(" * 100_000, b"x" + b".a" * 100_000, b"{"]):
        (tmp_path / f"f{i}.py").write_bytes(text)
    (tmp_path / "n.ipynb").write_bytes(b'{"cells": 3}')
    done = start("check", ".", cwd=tmp_path)
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr[-500:]


def test_advice():
    assert "not there yet" in missing.reason("torch.ao.quantization.fx", "x", [])
    assert missing.reason("torch", "compil", ["compile", "_x"]) == "did you mean torch.compile?"
    assert check.look_up.__doc__


def test_layouts_are_shown_as_torchs(tmp_path):
    text = "import torch; t = torch.eye(2).to_sparse(); print(t.layout, torch.strided); print(t)"
    out = start("run", "-c", text, cwd=tmp_path).stdout
    assert out.startswith("torch.sparse_coo torch.strided\n")
    assert out.endswith("layout=torch.sparse_coo)\n")


PATHS = """\
import torch
import torch.backends.mha, torch.backends.miopen, torch.backends.nnpack, torch.backends.quantized
import torch.cuda.comm, torch.cuda.nccl, torch.cuda.profiler, torch.nn.grad, torch.nn.parallel.comm
import torch.profiler.profiler, torch.signal.windows.windows, torch.utils.benchmark.utils.common
from torch.distributions.relaxed_bernoulli import LogitRelaxedBernoulli
from torch.nn.parallel.data_parallel import data_parallel
from torch.nn.parallel.parallel_apply import parallel_apply
from torch.nn.parallel.replicate import replicate
from torch.nn.parallel.scatter_gather import gather, scatter_kwargs
from torch.serialization import default_restore_location

m, x = torch.nn.Linear(2, 1), torch.ones(1, 2)
for call in (data_parallel, torch.nn.parallel.data_parallel):
    assert torch.equal(call(m, x), m(x))
assert torch.equal(parallel_apply(replicate(m, ["cpu"]), [x])[0], m(x))
assert scatter_kwargs((x,), {"a": 1}, ["cpu"])[1] == ({"a": 1},)
assert default_restore_location(x, "cpu") is x or torch.equal(default_restore_location(x, "cpu"), x)
assert torch.cond(torch.tensor(False), torch.sin, torch.cos, (torch.zeros(1),)).item() == 1
assert torch.get_device_module("cpu") is torch.cpu and "PyFlame" in torch.__config__.show()
assert torch.backends.cuda.preferred_linalg_library("magma") == "magma"
assert torch.backends.cuda.cufft_plan_cache[0].max_size > 0 and torch.cuda.nccl.version() == (0, 0, 0)
a, b = torch.ones(2, requires_grad=True), torch.zeros(3)
a.sum().backward()
torch.utils.swap_tensors(a, b)
assert a.shape == (3,) and not a.requires_grad and a.grad is None
assert b.tolist() == [1, 1] and b.requires_grad and b.grad.tolist() == [1, 1]
for n, shape in ((1, [7]), (2, [7, 6]), (3, [5, 4, 6])):
    conv = getattr(torch, f"conv{n}d")
    x = torch.randn(2, 4, *shape, requires_grad=True)
    w = torch.randn(6, 2, *[3] * n, requires_grad=True)
    out = conv(x, w, None, 2, 1, 1, 2)
    g = torch.randn_like(out)
    out.backward(g)
    for by, t in (("input", (x.shape, w)), ("weight", (x, w.shape))):
        got = getattr(torch.nn.grad, f"conv{n}d_{by}")(*t, g, 2, 1, 1, 2)
        assert torch.allclose(got, (x if by == "input" else w).grad, atol=1e-4), (n, by)
for call, text in (
    (lambda: torch.cuda.comm.broadcast(x, [0, 1]), "several devices"),
    (lambda: torch.cuda.nccl.all_reduce([x]), "several processes"),
    (lambda: torch.utils.swap_tensors(x * 2, x), "two leaves"),
    (lambda: torch.get_device_module("tpu"), "expected 'cuda' or 'cpu'"),
    (lambda: __import__("torch.package"), "packages hold pickles"),
):
    try:
        call()
    except (RuntimeError, ImportError) as e:
        assert text in str(e), e
    else:
        assert False, text
print("fine")
"""


def test_paths_that_programs_import(tmp_path):
    assert run(PATHS, cwd=tmp_path) == "fine\n"


def test_checks_of_tensors(tmp_path):
    out = run(
        """
        import torch
        torch._check_tensor_all(torch.tensor([True, True]))
        for error, given in ((ValueError, torch.tensor([True, False])), (ValueError, torch.ones(2))):
            try:
                torch._check_tensor_all_with(error, given, lambda: "not all of them")
            except (ValueError, TypeError) as e:
                print(type(e).__name__, str(e)[:20])
        """,
        cwd=tmp_path,
    )
    assert out.split("\n")[:2] == ["ValueError not all of them", "TypeError torch._check_tensor_"]
