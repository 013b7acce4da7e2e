"""Which function does what for sparse tensors: pf.mm(sparse, dense), sparse @ dense, sparse + dense."""

from .. import _C
from .._named_errors import _raised
from ..overrides import _name_of
from . import _elementwise as e
from . import _products as products
from . import _steps as steps
from ._tensor import SparseTensor


def _addmm(input, mat1, mat2, beta=None, alpha=None, **named):
    return products.addmm(
        input, mat1, mat2,
        beta=named.get("beta", 1 if beta is None else beta),
        alpha=named.get("alpha", 1 if alpha is None else alpha),
    )  # fmt: skip


def _mv(input, vec):
    if vec.dim() != 1 or isinstance(vec, SparseTensor):
        raise _C.ShapeError(
            f"pf.mv: got a vector of shape {list(vec.shape)}; expected one dense dimension; use mm()"
        )
    return products.matmul(input, vec, "mv")


def _linear(input, weight, bias=None):
    product = products.matmul(input, e.t_of(weight), "nn.functional.linear")
    return product if bias is None else product + bias


def _clone(input, *, memory_format=None):
    return input.clone()


_TABLE = {
    "add": e.add, "add_": e.add_, "sub": e.sub, "sub_": e.sub_, "subtract": e.sub,
    "mul": e.mul, "multiply": e.mul, "mul_": e.inplace(e.mul), "multiply_": e.inplace(e.mul),
    "div": e.div, "div_": e.inplace(e.div), "divide": e.div, "true_divide": e.div,
    "pow": e.power, "pow_": e.inplace(e.power), "sum": e.sum_of, "mean": e.mean_of, "norm": e.norm_of,
    "softmax": e.softmax, "log_softmax": lambda x, dim, dtype=None: e.softmax(x, dim, dtype, log=True),
    "t": e.t_of, "T": e.t_of, "mT": lambda x: e.transpose(x, -2, -1), "transpose": e.transpose,
    "swapaxes": e.transpose, "swapdims": e.transpose, "permute": e.permute, "select": e.select,
    "index_select": e.index_select, "__getitem__": e.getitem, "cat": e.cat, "concat": e.cat,
    "concatenate": e.cat, "unsqueeze": e.unsqueeze, "equal": e.equal, "zeros_like": e.like,
    "empty_like": e.like, "clone": _clone,
    "mm": products.multiply, "spmm": products.multiply, "matmul": products.matmul,
    "dot": products.matmul, "mv": _mv, "addmm": _addmm, "addmm_": e.inplace(_addmm), "linear": _linear,
    "_sgd": steps.sgd, "_adamw": steps.refuse_adam, "_optim_step": steps.by_rule,
    "_multi_norm": steps.multi_norm, "_clip_grad_norm_": steps.clip,
    "_clip_grad_value_": steps.clip, "_found_nonfinite": steps.found_nonfinite,
    "is_floating_point": lambda x: x.dtype.is_floating_point, "is_complex": lambda x: x.dtype.is_complex,
}  # fmt: skip
_CASTS = {
    "float": _C.float32, "double": _C.float64, "half": _C.float16, "bfloat16": _C.bfloat16,
    "long": _C.int64, "int": _C.int32, "short": _C.int16, "char": _C.int8, "byte": _C.uint8, "bool": _C.bool,
}  # fmt: skip


def call(func, args, kwargs):
    """What `func`, an operation of dense tensors, does with sparse ones among its arguments."""
    name = _name_of(func)
    try:
        return _called(name, func, args, kwargs)
    except AttributeError as error:
        wrong = _raised(func, name, args, kwargs, error)
        if wrong is None:
            raise
        raise wrong from None


def _called(name, func, args, kwargs):
    if found := _TABLE.get(name):
        if name in steps.NAMES:
            return found(func, *args, **kwargs)
        return found(*args, **kwargs)
    first = args[0] if args else next(iter(kwargs.values()), None)
    if isinstance(first, SparseTensor):
        if name in e.LINEAR or name in e.KEEP_ZERO:
            return e.mapped(name, func)(*args, **kwargs)
        if name.endswith("_") and name[:-1] in (*e.LINEAR, *e.KEEP_ZERO):
            plain = getattr(_C.Tensor, name[:-1])
            return e.inplace(e.mapped(name[:-1], plain))(*args, **kwargs)
        if name in _CASTS:
            return first.to(_CASTS[name])
        if method := SparseTensor.__dict__.get(name):
            return method(*args, **kwargs)
    raise _C.NotSupportedError(
        f"pf.{name}: got a sparse tensor; expected dense ones; call to_dense() first, or take values() of "
        "a coalesced one"
    )
