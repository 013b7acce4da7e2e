"""Packages that reach into PyTorch's insides when they are imported (torchao, xformers, deepspeed): they get
stand-ins, nobody else does; and what they need of torch.library and its like is there."""

import pytest
import test_torch_run

pytestmark = pytest.mark.cpu_only

PACKAGE = """
import torch
import torch._inductor.nowhere.at_all as deep
from torch._nowhere import Base, decorator
from torch.nn import Lineer
from torch.utils._pytree import register_constant

class Derived(Base):
    pass

class Wrapped(torch.Tensor):
    kind = torch._ops.OpOverload

errors = []
for use in (lambda: Derived(), lambda: decorator(len), lambda: torch.nowhere(1), lambda: deep.inside.more(),
            lambda: Lineer(1, 1)):
    try:
        use()
    except NotImplementedError as e:
        errors.append(str(e).partition(": it is not in PyFlame")[0])
assert not isinstance(3, Base) and issubclass(Derived, Base) and not hasattr(Derived, "anything")
assert not hasattr(torch, "__nothing__")
register_constant(Derived)
"""
PROGRAM = """
import importlib.util
import torch, torchao
print(torchao.errors)
for text in ("torch.nowhere", "from torch.nn import Lineer", "import torch._elsewhere",
             "from torch._nowhere import Base", "torch._inductor.nowhere.at_all.x"):
    try:
        exec(text)
    except (AttributeError, ImportError) as e:
        print(type(e).__qualname__)
assert importlib.util.find_spec("torch._elsewhere") is None

from typing import List, Optional, Tuple, Union
from torch.library import Library, impl, infer_schema
from torch.utils import _pytree as pytree

def f(x: torch.Tensor, n: int = 3, s: str = "a", *, y: Optional[torch.Tensor] = None, l: List[int] = None,
      q: Union[int, float] = 1, d: torch.dtype = torch.float32) -> Tuple[torch.Tensor, int]: ...

print(infer_schema(f, mutates_args={"y"}))
print(infer_schema(f, mutates_args="unknown", op_name="a::b")[:30])
try:
    infer_schema(lambda: None, mutates_args=())
except ValueError as e:
    print("annotation" in str(e))

library = Library("deep", "DEF")
library.define("twice(Tensor x) -> Tensor", tags=[torch.Tag.pointwise, torch._C.Tag.needs_fixed_stride_order])
impl(library, "twice", "CompositeExplicitAutograd")(lambda x: x * 2)
impl(library, "twice", "Meta")(lambda x: 1 / 0)
assert torch.ops.deep.twice(torch.ones(2)).tolist() == [2, 2]
schema = torch.ops.aten.mm.default._schema
assert str(schema) == "aten.mm.default(...)" and not schema.is_backward_compatible_with(torch._C.parse_schema("x()"))

class Mode:
    pass

pytree.register_constant(Mode)
mode = Mode()
leaves, spec = pytree.tree_flatten([1, mode])
assert leaves == [1] and pytree.tree_unflatten([2], spec)[1] is mode and pytree.is_constant_class(Mode)
assert not pytree.is_constant_class(dict)
torch.serialization.add_safe_globals(safe_globals=[(torch.uint1, "torch.uint1"), Mode])
assert not torch.utils._triton.has_triton() and not torch.backends.cusparselt.is_available()
assert torch._dynamo.utils.warn_once and torch._disable_dynamo(len) is len and torch._disable_dynamo()(len) is len
"""


def test_stand_ins_are_for_them_alone(tmp_path):
    (tmp_path / "torchao").mkdir()
    (tmp_path / "torchao" / "__init__.py").write_text(PACKAGE)
    lines = test_torch_run.run(PROGRAM, cwd=tmp_path).splitlines()
    assert lines[0] == str([
        "torchao.Derived", "torch._nowhere.decorator", "torch.nowhere",
        "torch._inductor.nowhere.at_all.inside.more", "torch.nn.Lineer",
    ])  # fmt: skip
    assert lines[1:6] == [
        "AttributeError",
        "ImportError",
        "ModuleNotFoundError",
        "ImportError",
        "AttributeError",
    ]
    # As PyTorch 2.13 writes it.
    assert lines[6] == (
        '(Tensor x, SymInt n=3, str s="a", *, Tensor(a3!)? y=None, SymInt[] l=None, Scalar q=1, '
        "ScalarType d=float32) -> (Tensor, SymInt)"
    )
    assert lines[7:] == ["a::b(Tensor(a0!) x, SymInt n=3", "True"]
