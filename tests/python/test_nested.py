"""torch.nested: each operation beside the same on every component, and beside PyTorch where it has it."""

import copy
import importlib
import importlib.util
import io
import pickle

import pytest

import pyflame as pf

BOTH = ["pyflame"] + ["torch"] * bool(importlib.util.find_spec("torch"))


@pytest.fixture(params=BOTH)
def t(request):
    return importlib.import_module(request.param)


LENGTHS = {"several": (3, 1, 4), "one": (5,), "alike": (2, 2)}


def parts(t, lengths, *rest, grad=False):
    made, at = [], 0
    for n in lengths:
        size = n
        for r in rest:
            size *= r
        x = (t.arange(at, at + size, dtype=t.float64) * 0.7).sin().reshape(n, *rest)
        made.append(x.requires_grad_(grad))
        at += size
    return made


def nested(t, tensors):
    return t.nested.as_nested_tensor(tensors, layout=t.jagged)


def same(t, ours, expected, tolerance=1e-12):
    """Compares a result with that of each component: nested, or stacked."""
    found = list(ours.unbind()) if ours.is_nested else list(ours)
    assert len(found) == len(expected)
    for a, b in zip(found, expected):
        t.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


# f(t, x) of a nested tensor [components, j, 4, 2] is that of each component [j, 4, 2], whose dimensions are
# one less: d(k) is dimension k of the nested one.
EACH = {
    "exp": lambda t, x, d: x.exp(),
    "numbers": lambda t, x, d: 2 - x * 3 / (x + 5),
    "itself": lambda t, x, d: x * x.sigmoid() + t.maximum(x, -x),
    "compare": lambda t, x, d: (x > 0.2).to(t.float64),
    "where": lambda t, x, d: t.where(x > 0, x, t.zeros((), dtype=t.float64)),
    "gelu": lambda t, x, d: t.nn.functional.gelu(x),
    "silu": lambda t, x, d: t.nn.functional.silu(x),
    "relu": lambda t, x, d: t.nn.functional.relu(x),
    "clamp": lambda t, x, d: x.clamp(-0.3, 0.4),
    "dropout": lambda t, x, d: t.nn.functional.dropout(x, 0.5, training=False),
    "dtype": lambda t, x, d: x.float().double(),
    "clone": lambda t, x, d: x.clone(),
    "contiguous": lambda t, x, d: x.transpose(d(2), d(3)).contiguous(),
    "vector": lambda t, x, d: x * t.tensor([1.0, -2.0], dtype=t.float64),
    "matrix": lambda t, x, d: x + t.arange(8, dtype=t.float64).reshape(4, 2),
    "linear": lambda t, x, d: t.nn.functional.linear(x, weight(t, 3, 2), weight(t, 3)),
    "matmul": lambda t, x, d: x @ weight(t, 2, 3),
    "layer_norm": lambda t, x, d: t.nn.functional.layer_norm(x, (4, 2), weight(t, 4, 2)),
    "rms_norm": lambda t, x, d: t.nn.functional.rms_norm(x, (2,)),
    "softmax": lambda t, x, d: t.softmax(x, -1),
    "softmax over rows": lambda t, x, d: t.nn.functional.softmax(x, d(1)),
    "log_softmax": lambda t, x, d: t.nn.functional.log_softmax(x, d(2)),
    "sum": lambda t, x, d: x.sum(-1),
    "sum, kept": lambda t, x, d: x.sum(d(2), keepdim=True),
    "mean": lambda t, x, d: x.mean(d(2)),
    "amax": lambda t, x, d: x.amax(-1),
    "max": lambda t, x, d: x.max(d(3)).values,
    "argmax": lambda t, x, d: x.argmax(d(2)),
    "sum over rows": lambda t, x, d: x.sum(d(1)),
    "sum over rows, kept": lambda t, x, d: x.sum(d(1), keepdim=True),
    "mean over rows": lambda t, x, d: x.mean(dim=d(1)),
    "amax over rows": lambda t, x, d: x.amax(d(1)),
    "any over rows": lambda t, x, d: (x > 0.9).any(d(1)),
    "prod over rows": lambda t, x, d: x.prod(d(1)),
    "transpose": lambda t, x, d: x.transpose(d(1), d(2)),
    "permute": lambda t, x, d: permuted(x, d, 2, 1, 3),
    "transposed sum": lambda t, x, d: x.transpose(d(1), d(2)).sum(d(2)),
    "unflatten": lambda t, x, d: x.unflatten(d(2), (2, 2)),
    "flatten": lambda t, x, d: x.flatten(d(2)),
    "unsqueeze": lambda t, x, d: x.unsqueeze(d(2)).squeeze(d(2)).unsqueeze(-1),
    "select": lambda t, x, d: x.select(d(2), 1),
    "slices": lambda t, x, d: x[..., 1:3, 0],
    "chunk": lambda t, x, d: t.cat(x.chunk(2, d(2))[::-1], d(2)),
    "split": lambda t, x, d: x.split([1, 3], d(2))[1],
    "like": lambda t, x, d: t.ones_like(x) + t.zeros_like(x),
    "layers": lambda t, x, d: layers(t)(x),
}


def weight(t, *sizes):
    count = 1
    for s in sizes:
        count *= s
    return (t.arange(count, dtype=t.float64) * 1.3).cos().reshape(sizes)


def permuted(x, d, *dims):
    return x.permute(0, *dims) if d(1) == 1 else x.permute(*map(d, dims))


def layers(t):
    t.manual_seed(0)
    return t.nn.Sequential(
        t.nn.LayerNorm(2), t.nn.Linear(2, 3), t.nn.ReLU(), t.nn.Dropout(0.0), t.nn.Linear(3, 1)
    ).double()


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("name", EACH)
def test_as_each_component(name, lengths):
    t = pf
    mine = parts(t, LENGTHS[lengths], 4, 2, grad=True)
    theirs = parts(t, LENGTHS[lengths], 4, 2, grad=True)
    result = EACH[name](t, nested(t, mine), lambda k: k)
    expected = [EACH[name](t, x, lambda k: k - 1) for x in theirs]
    same(t, result, expected)
    if not expected[0].requires_grad:
        return
    seed = [weight(t, *e.shape) for e in expected]
    sum((e * s).sum() for e, s in zip(expected, seed)).backward()
    found = result.unbind() if result.is_nested else list(result)
    sum((r * s).sum() for r, s in zip(found, seed)).backward()
    for a, b in zip(mine, theirs):
        t.testing.assert_close(a.grad, b.grad, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("causal", [False, True])
def test_attention(causal):
    t, attend = pf, pf.nn.functional.scaled_dot_product_attention
    mine, theirs = ([parts(t, (3, 1, 4), 2, 8, grad=True) for _ in range(3)] for _ in range(2))
    q, k, v = (nested(t, p).transpose(1, 2) for p in mine)
    result = attend(q, k, v, is_causal=causal).transpose(1, 2)
    expected = [
        attend(*(x.transpose(0, 1)[None] for x in row), is_causal=causal)[0].transpose(0, 1)
        for row in zip(*theirs)
    ]
    same(t, result, expected)
    (result.values() * weight(t, 8, 2, 8)).sum().backward()
    (t.cat(expected) * weight(t, 8, 2, 8)).sum().backward()
    for a, b in zip(sum(mine, []), sum(theirs, [])):
        t.testing.assert_close(a.grad, b.grad, rtol=1e-9, atol=1e-12)


def test_attention_of_other_keys_and_without_heads():
    t, attend = pf, pf.nn.functional.scaled_dot_product_attention
    q, k = parts(t, (3, 2), 8), parts(t, (1, 5), 8)
    result = attend(nested(t, q), nested(t, k), nested(t, k))
    same(t, result, [attend(a[None], b[None], b[None])[0] for a, b in zip(q, k)])
    with pytest.raises(pf.NotSupportedError, match="mask"):
        attend(nested(t, q), nested(t, k), nested(t, k), t.ones(3, 5))
    with pytest.raises(pf.ShapeError):
        attend(nested(t, q), nested(t, k), nested(t, q))


def test_what_it_is(t):
    a = t.nested.nested_tensor([[[1.0, 2.0]], t.ones(3, 2)], layout=t.jagged, requires_grad=True)
    assert (
        isinstance(a, t.Tensor) and a.is_nested and not t.ones(1).is_nested and a.layout == t.jagged
    )
    assert (a.dim(), a.ndim, a.numel(), len(a), a.is_leaf, a.requires_grad) == (
        3,
        3,
        8,
        2,
        True,
        True,
    )
    assert (a.size(0), a.size(-1), a.shape[2]) == (2, 2, 2) and a.size(1) == (a + 1).shape[1] != 3
    assert a.offsets().tolist() == [0, 1, 4] and a.values().shape == (4, 2) and a.dtype == t.float32
    assert [c.tolist() for c in a] == [[[1, 2]], [[1, 1]] * 3] and a[1].shape == (3, 2)
    assert (
        a[-1, 0].tolist() == [1, 1]
        and "j" in repr(a)
        and repr(a).startswith("NestedTensor(size=(2, j")
    )
    (a * a).sum().backward()
    assert a.grad.is_nested and a.grad.values().tolist() == [[2, 4]] + [[2, 2]] * 3
    (g,) = t.autograd.grad((a * 3).sum(), a)
    assert g.is_nested and g[0].tolist() == [[3, 3]]
    b = a.detach()
    assert b.mul_(2) is b and b.values()[0].tolist() == [2, 4] and not b.requires_grad
    assert copy.deepcopy(a).requires_grad and copy.deepcopy(a)[0].tolist() == a[0].tolist()
    c = pickle.loads(pickle.dumps(b))
    assert (
        c.is_nested
        and c.offsets().tolist() == [0, 1, 4]
        and c.values().tolist() == b.values().tolist()
    )


def test_the_layout_that_is_pytorchs_default(t):
    a = t.nested.nested_tensor([t.ones(2, 3), t.zeros(1, 3)])
    assert a.layout == t.strided and a.is_nested and (a.dim(), a.size(0), a.size(2)) == (3, 2, 3)
    for bad in (lambda: a.size(1), lambda: a.shape):
        with pytest.raises(RuntimeError):
            bad()
    assert [x.tolist() for x in (a + 1).unbind()] == [[[2] * 3] * 2, [[1] * 3]]
    assert a.to_padded_tensor(5.0).tolist() == [[[1] * 3] * 2, [[0] * 3, [5] * 3]]
    assert repr(t.nested.nested_tensor([[1.0], [2.0, 3.0]], device="cpu")) == (
        "nested_tensor([\n  tensor([1.]),\n  tensor([2., 3.])\n])"
    )


def test_padding(t):
    x = parts(t, (2, 1), 3, grad=True)
    a = nested(t, x)
    padded = t.nested.to_padded_tensor(a, -1.0)
    assert padded.shape == (2, 2, 3) and padded[1, 1].tolist() == [-1] * 3
    larger = a.to_padded_tensor(0.5, (2, 4, 3))
    assert larger.shape == (2, 4, 3) and larger[1, 1:].unique().tolist() == [0.5]
    (larger * 2).sum().backward()
    assert x[0].grad.tolist() == [[2] * 3] * 2
    added = a + padded.detach()
    same(t, added, [2 * c.detach() for c in x])
    if t is pf:  # PyTorch gives a tensor of another size
        with pytest.raises(pf.ShapeError):
            a.to_padded_tensor(0.0, (2, 1, 3))


def test_beside_dense_tensors(t):
    x = parts(t, (2, 3), 2)
    a, each = nested(t, x), t.tensor([[[1.0, 2.0]], [[3.0, 4.0]]], dtype=t.float64)
    same(t, a * each, [x[0] * each[0], x[1] * each[1]])
    same(t, each[:1] - a, [each[0] - x[0], each[0] - x[1]])
    for bad in (t.ones(5, 2), t.ones(2, 3, 5), t.ones(3, 1, 2)):
        with pytest.raises(RuntimeError):
            a * bad
    with pytest.raises(RuntimeError):
        a + nested(t, parts(t, (3, 2), 2))


def test_jagged_values(t):
    values = t.arange(12.0).reshape(6, 2).requires_grad_()
    f = t.nested.nested_tensor_from_jagged
    a = f(values, t.tensor([0, 2, 2, 6]))
    assert [len(c) for c in a.unbind()] == [2, 0, 4] and a.values().tolist() == values.tolist()
    assert (
        a.sum(1).tolist() == [[2, 4], [0, 0], [28, 32]]
        and f(values, lengths=t.tensor([1, 5])).size(0) == 2
    )
    if t is pf:  # PyTorch has no gradient of it
        (a.sum(1) * t.tensor([[1.0], [5.0], [2.0]])).sum().backward()
        assert values.grad.tolist() == [[1, 1]] * 2 + [[2, 2]] * 4
    holes = f(values, t.tensor([0, 3, 6]), t.tensor([2, 1]))
    assert [c.tolist() for c in holes.unbind()] == [[[0, 1], [2, 3]], [[6, 7]]]
    along = f(values.t(), t.tensor([0, 2, 6]), jagged_dim=2)
    assert along.size(1) == 2 and along[1].shape == (2, 4)


def test_parts_of_rows(t):
    x = t.arange(24.0).reshape(2, 4, 3).requires_grad_()
    a = t.nested.narrow(x, 1, t.tensor([0, 1]), t.tensor([2, 3]), layout=t.jagged)
    assert [c.tolist() for c in a.unbind()] == [x[0, :2].tolist(), x[1, 1:].tolist()]
    a.unbind()[1].sum().backward()
    assert x.grad.sum((1, 2)).tolist() == [0, 9]
    assert [len(c) for c in t.nested.narrow(x, 1, 1, 2, layout=t.jagged).unbind()] == [2, 2]
    picked = t.nested.masked_select(
        t.tensor([[1, 2, 3], [4, 5, 6]]), t.tensor([[True, False, True], [False] * 2 + [True]])
    )
    assert [c.tolist() for c in picked.unbind()] == [[1, 3], [6]]
    dense = t.nested.as_nested_tensor(x, layout=t.jagged)
    assert dense.size(0) == 2 and dense[1].tolist() == x[1].tolist()


def test_a_ragged_dimension_further_behind(t):
    a = t.nested.nested_tensor([t.ones(2, 3), t.ones(2, 5)], layout=t.jagged)
    assert (a.size(0), a.size(1)) == (2, 2) and a.values().shape == (2, 8)
    assert (a * 2).sum(2).tolist() == [[6, 6], [10, 10]] and a.transpose(1, 2).sum(1).tolist() == [
        [3, 3],
        [5, 5],
    ]


def test_products_of_components(t):
    x = parts(t, (3, 2), 4)
    a = nested(t, x)
    same(t, a.transpose(1, 2) @ a.cos(), [p.T @ p.cos() for p in x])
    embedded = t.nn.functional.embedding(
        nested(t, [t.tensor([1, 0]), t.tensor([2])]), weight(t, 3, 5)
    )
    same(t, embedded, [weight(t, 3, 5)[[1, 0]], weight(t, 3, 5)[[2]]])
    grid = weight(t, 2, 4, 3)
    if t is pf:
        same(t, a @ grid, [p @ g for p, g in zip(x, grid)])


def test_views(t):
    a = nested(t, parts(t, (2, 3), 4))
    for shape in ((2, -1, 2, 2), (2, a.size(1), 2, 2), (-1, a.size(1), 4)):
        assert a.view(*shape).shape[2:] == (2, 2) or a.view(*shape).shape == a.shape
    assert a.reshape(2, -1, 4).shape == a.shape
    heads = a.view(2, -1, 2, 2).transpose(1, 2)
    assert (heads.size(1), heads.size(3)) == (2, 2) and heads.shape[2] == a.size(1)


def test_what_is_refused():
    t, x = pf, pf.nested.nested_tensor([pf.ones(2, 3), pf.ones(1, 3)], layout=pf.jagged)
    for bad in (
        lambda: x.cumsum(1), lambda: x.sum(0), lambda: x.transpose(0, 1), lambda: x.view(6, 3),
        lambda: x.flatten(), lambda: x[:, 0], lambda: x.unsqueeze(0), lambda: x @ x,
        lambda: t.cat([x, x]), lambda: t.nn.functional.layer_norm(x.transpose(1, 2), (2,)),
        lambda: t.nn.functional.linear(x.transpose(1, 2), t.ones(2, 2)), lambda: t.ones(2, 3).copy_(x),
        lambda: t.nested.nested_tensor([t.ones(2, 3), t.ones(3, 4)]), lambda: t.softmax(x, None),
    ):  # fmt: skip
        with pytest.raises(pf.NotSupportedError, match="expected"):
            bad()
    f, values = t.nested.nested_tensor_from_jagged, t.ones(4, 2)
    for bad in (
        lambda: t.nested.nested_tensor([]), lambda: t.nested.nested_tensor([t.ones(2), t.ones(2, 2)]),
        lambda: t.nested.nested_tensor([t.tensor(1.0)]), lambda: f(values, t.tensor([0, 5])),
        lambda: f(values, t.tensor([0, 3, 2, 4])), lambda: f(values, t.tensor([-1, 4])), lambda: f(values),
        lambda: f(values, t.tensor([0.0, 4.0])), lambda: f(values, t.tensor([0, 4]), t.tensor([1, 2])),
        lambda: f(values, t.tensor([0, 4]), jagged_dim=3), lambda: f(values, t.tensor([], dtype=t.int64)),
        lambda: t.nested.narrow(values, 1, 0, 3), lambda: t.nested.narrow(values, 0, 0, 1),
        lambda: t.nested.nested_tensor([t.ones(1)], layout=t.sparse_coo), lambda: x.item(), lambda: x[2],
        lambda: x.size(3), lambda: bool(x),
    ):  # fmt: skip
        with pytest.raises((pf.ValueError, pf.ShapeError, pf.IndexError), match="expected"):
            bad()
    for bad in (lambda: x.numpy(), lambda: x.size(1) * 2, lambda: type(x)([1.0])):
        with pytest.raises(TypeError, match="expected"):
            bad()


def test_empty_components():
    t = pf
    x = parts(t, (0, 2, 0), 3, grad=True)
    a = nested(t, x)
    assert a.sum(1).shape == (3, 3) and a.mean(1)[0].isnan().all() and a.exp()[0].shape == (0, 3)
    assert t.softmax(a, 1)[1].sum(0).tolist() == pytest.approx([1, 1, 1])
    assert a.to_padded_tensor(7.0)[0].unique().tolist() == [7]
    a.sum(1).sum().backward()
    assert x[1].grad.tolist() == [[1] * 3] * 2
    nothing = nested(t, parts(t, (0, 0), 3))
    assert nothing.numel() == 0 and nothing.sum(1).tolist() == [[0] * 3] * 2
    assert nothing.to_padded_tensor(0.0).shape == (2, 0, 3) and t.softmax(nothing, 1).numel() == 0


@pytest.mark.parametrize("layout", [pf.jagged, pf.strided])
def test_in_files(layout):
    a = pf.nested.nested_tensor([pf.ones(2, 3), pf.zeros(1, 3)], layout=layout)
    file = io.BytesIO()
    pf.save({"a": a, "b": [a + 1]}, file)
    file.seek(0)
    b = pf.load(file)
    assert b["a"].layout == layout and b["a"].offsets().tolist() == [0, 2, 3]
    assert [c.tolist() for c in b["b"][0].unbind()] == [[[2] * 3] * 2, [[1] * 3]]


def test_training():
    t = pf
    t.manual_seed(0)
    model = t.nn.Sequential(
        t.nn.Linear(4, 8), t.nn.GELU(), t.nn.LayerNorm(8), t.nn.Linear(8, 1)
    ).double()
    optimizer = t.optim.Adam(model.parameters(), lr=0.05)
    x, losses = nested(t, parts(t, (3, 1, 4), 4)), []
    target = t.tensor([[1.0], [-1.0], [0.5]], dtype=t.float64)
    for _ in range(20):
        optimizer.zero_grad()
        loss = (model(x).mean(1) - target).pow(2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.2 * losses[0]


def test_the_dtype_of_a_nested_tensor_alone(t):
    like = nested(t, parts(t, (3, 1)))
    for found in (t.ones(2).to(like), *([t.ones(2).type_as(like)] if t is pf else [])):
        assert type(found) is t.Tensor and found.shape == (2,) and found.dtype == t.float64


@pytest.mark.parametrize("norm_first", [False, True])
def test_an_encoder_of_nested_sequences(norm_first):
    pf.manual_seed(3)
    layer = pf.nn.TransformerEncoderLayer(
        8, 2, 12, dropout=0.0, batch_first=True, norm_first=norm_first
    )
    encoder = pf.nn.TransformerEncoder(layer, 2, norm=pf.nn.LayerNorm(8))
    rows = [pf.randn(n, 8, requires_grad=True) for n in (2, 4, 3)]
    apart = [encoder(r.unsqueeze(0))[0] for r in rows]
    expected = pf.autograd.grad(sum(a.square().sum() for a in apart), rows)
    for layout in (pf.strided, pf.jagged):
        nested = pf.nested.as_nested_tensor(rows, layout=layout)
        found = encoder(nested).unbind()
        for a, b in zip(found, apart):
            pf.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
        given = pf.autograd.grad(sum(a.square().sum() for a in found), rows)
        for a, b in zip(given, expected):
            pf.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)
    with pytest.raises(ValueError, match="src_key_padding_mask"):
        encoder(nested, src_key_padding_mask=pf.zeros(3, 4, dtype=pf.bool))
    with pytest.raises(ValueError, match="batch_first"):
        pf.nn.TransformerEncoderLayer(8, 2, 12)(nested)
