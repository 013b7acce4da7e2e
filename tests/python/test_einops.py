"""einops with PyFlame's tensors, against einops with NumPy's arrays."""

import subprocess
import sys

import numpy as np
import pytest
from hangs import HANG

import pyflame as pf

einops = pytest.importorskip("einops")

X = np.random.default_rng(0).standard_normal((2, 3, 4, 6))

CASES = {
    "transposed": lambda e, x: e.rearrange(x, "b c h w -> b h w c"),
    "joined": lambda e, x: e.rearrange(x, "b c h w -> b (c h w)"),
    "patches": lambda e, x: e.rearrange(x, "b c (h p) (w q) -> b (h w) (p q c)", p=2, q=3),
    "ellipsis": lambda e, x: e.rearrange(x, "b ... -> (...) b"),
    "new axes": lambda e, x: e.rearrange(x, "b c h w -> b 1 (c h) w 1"),
    "list": lambda e, x: e.rearrange([x, x], "n b c h w -> b (n c) h w"),
    "repeat": lambda e, x: e.repeat(x, "b c h w -> b (n c) h (w k)", n=2, k=3),
    "repeat a new axis": lambda e, x: e.repeat(x, "b c h w -> b c h w n", n=2),
    "mean": lambda e, x: e.reduce(x, "b c h w -> b c", "mean"),
    "sum of parts": lambda e, x: e.reduce(x, "b c (h p) w -> b c h w", "sum", p=2),
    "max": lambda e, x: e.reduce(x, "b c h w -> h", "max"),
    "min of all": lambda e, x: e.reduce(x, "b c h w ->", "min"),
    "prod": lambda e, x: e.reduce(x, "b c h w -> b w", "prod"),
    "any": lambda e, x: e.reduce(x > 1, "b c h w -> b w", "any"),
    "all": lambda e, x: e.reduce(x > -2, "b c h w -> b w", "all"),
    "einsum": lambda e, x: e.einsum(x, x, "b c h w, b c h v -> b w v"),
    "pack": lambda e, x: e.pack([x, x[..., 0]], "b c *")[0],
    "unpack": lambda e, x: e.unpack(x, [[2], [4]], "b c h *")[1],
    "function": lambda e, x: e.reduce(x, "b c h w -> b c", lambda t, axes: t.sum(axes)),
}


@pytest.mark.parametrize("name", CASES)
def test_as_with_numpy(name):
    want = CASES[name](einops, X)
    got = CASES[name](einops, pf.tensor(X))
    assert isinstance(got, pf.Tensor) and got.shape == want.shape
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-12)


def test_shapes_and_gradients():
    x = pf.tensor(X, requires_grad=True)
    assert einops.parse_shape(x, "b c _ w") == {"b": 2, "c": 3, "w": 6}
    (einops.rearrange(x, "b c h w -> w (b c h)") * 2).sum().backward()
    assert (x.grad == 2).all()
    with pytest.raises(einops.EinopsError):
        einops.rearrange(x, "b c h -> b (c h)")
    assert einops.asnumpy(x.detach()).shape == X.shape


@pytest.mark.parametrize("first", ["einops", "pyflame"])
def test_either_may_be_imported_first(first):
    imports = {"einops": "import einops", "pyflame": "import pyflame as torch"}
    code = (
        "\n".join([imports.pop(first), *imports.values()])
        + """
import sys
assert einops.rearrange(torch.ones(2, 3), "a b -> b a").shape == (3, 2)
assert einops.rearrange([torch.ones(2)], "a b -> b a").shape == (2, 1)
names = [type(f).__module__ for f in sys.meta_path]
assert not any(n.startswith("pyflame") for n in names), names
"""
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=HANG)


def test_pyflame_imports_nothing_of_it():
    code = "import sys, pyflame; assert not any(n.startswith('einops') for n in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=HANG)


def test_asking_for_einops_is_not_importing_it():
    code = """
import importlib.util, sys
import pyflame as pf
path = importlib.util.find_spec("einops").submodule_search_locations
for _ in range(2):  # as tools do that look for modules
    specs = [f.find_spec("einops._backends", path) for f in list(sys.meta_path)]
    assert any(specs)
import einops
assert einops.rearrange(pf.ones(2, 3), "a b -> b a").shape == (3, 2)
names = [type(f).__module__ for f in sys.meta_path]
assert not any(n.startswith("pyflame") for n in names), names
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=HANG)
