"""Devices of other kinds can be named and compared, as programs do that look for one; nothing is made on them."""

import copy
import pickle

import pytest
import test_torch_run

import pyflame as pf

KINDS = (
    "mps xpu xla hpu ipu mtia maia ve fpga vulkan lazy mkldnn opengl ideep opencl privateuseone"
).split()


@pytest.mark.parametrize("kind", KINDS)
def test_names(kind):
    plain, third = pf.device(kind), pf.device(kind, 3)
    assert (plain.type, plain.index, str(plain)) == (kind, None, kind)
    assert (third.type, third.index, str(third)) == (kind, 3, f"{kind}:3")
    assert repr(plain) == f"device(type='{kind}')"
    assert repr(third) == f"device(type='{kind}', index=3)"
    assert plain == pf.device(kind) == kind and plain != third and third == pf.device(f"{kind}:3")
    assert plain != pf.device("cpu") and pf.ones(1).device != plain and plain != "cpu"
    assert hash(plain) == hash(kind) and {plain: 1}[pf.device(kind)] == 1
    for same in (pickle.loads(pickle.dumps(third)), copy.deepcopy(third), pf.device(third)):
        assert same == third and same.index == 3
    for use in (
        lambda: pf.ones(1, device=plain), lambda: pf.ones(1).to(third), lambda: pf.ones(1).to(kind),
        lambda: pf.set_device(plain), plain.__enter__, lambda: pf.nn.Linear(1, 1, device=plain),
    ):  # fmt: skip
        with pytest.raises(pf.DeviceError, match=f"got '{kind}"):
            use()


def test_other_names():
    for wrong in ("npu", "mp", "MPS", "mps:", "mps:x", "mps:-1", "mps:1000"):
        with pytest.raises(pf.DeviceError):
            pf.device(wrong)


ALIASES = """
import inspect, torch

inside = vars(torch.nn.modules.activation)
classes = {n for n, v in inside.items() if inspect.isclass(v) and issubclass(v, torch.nn.Module)}
assert {"ReLU", "Tanh", "SiLU", "MultiheadAttention"} <= classes and inside["ReLU"] is torch.nn.ReLU
assert "_sources" not in inside
for name in ("loss", "pooling", "conv", "normalization", "rnn"):
    assert any(inspect.isclass(v) for v in vars(getattr(torch.nn.modules, name)).values()), name
assert "Adam" in dict(inspect.getmembers(torch.optim.adam)) and "Normal" in vars(torch.distributions.normal)
"""


@pytest.mark.cpu_only
def test_modules_that_are_aliases_have_names(tmp_path):
    test_torch_run.run(ALIASES, cwd=tmp_path)
