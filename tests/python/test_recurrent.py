"""Recurrent layers against loops over sequences and steps in float64; packed sequences."""

import copy
import gc
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import pyflame as pf
from pyflame import nn
from pyflame.nn.utils import rnn

pytestmark = pytest.mark.kernels(0.5)

LAYERS = {"LSTM": nn.LSTM, "GRU": nn.GRU, "RNN_TANH": nn.RNN, "RNN_RELU": nn.RNN}


def make(mode, *sizes, **how):
    if mode == "RNN_RELU":
        how["nonlinearity"] = "relu"
    return LAYERS[mode](*sizes, **how)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def one_step(mode, x, h, c, w):
    a, b = w["weight_ih"] @ x + w["bias_ih"], w["weight_hh"] @ h + w["bias_hh"]
    if mode == "GRU":
        (ar, az, an), (br, bz, bn) = np.split(a, 3), np.split(b, 3)
        z = sigmoid(az + bz)
        return (1 - z) * np.tanh(an + sigmoid(ar + br) * bn) + z * h, c
    if mode == "LSTM":
        i, f, g, o = np.split(a + b, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        return (w["weight_hr"] @ h if "weight_hr" in w else h), c
    return (np.tanh(a + b) if mode == "RNN_TANH" else np.maximum(a + b, 0)), c


def reference(layer, sequences, h0, c0):
    """Outputs of each sequence, and the last states [layers * directions, batch, ...]."""
    h0, c0 = np.array(h0), np.array(c0)
    for at in range(h0.shape[0]):
        number, back = divmod(at, 2 if layer.bidirectional else 1)
        end = f"_l{number}" + "_reverse" * back
        w = {"bias_ih": 0.0, "bias_hh": 0.0}
        for name, p in layer.named_parameters():
            if name.endswith(end):
                w[name.removesuffix(end)] = p.detach().double().numpy()
        if not back:
            inputs, sequences = sequences, [[] for _ in sequences]
        for n, xs in enumerate(inputs):
            out = []
            for x in xs[::-1] if back else xs:
                h0[at, n], c0[at, n] = one_step(layer.mode, x, h0[at, n], c0[at, n], w)
                out.append(h0[at, n].copy())
            out = np.stack(out[::-1] if back else out)
            sequences[n] = np.concatenate([sequences[n], out], -1) if back else out
    return sequences, h0, c0


def states(layer, batch, rng, zero=False):
    rows = layer.num_layers * (2 if layer.bidirectional else 1)
    sizes = (layer.proj_size or layer.hidden_size, layer.hidden_size)
    return [
        np.zeros((rows, batch, n)) if zero else rng.normal(size=(rows, batch, n)) for n in sizes
    ]


def as_hx(layer, arrays, dtype):
    hx = tuple(pf.tensor(a, dtype=dtype) for a in arrays)
    return hx if layer.mode == "LSTM" else hx[0]


@settings(max_examples=40, deadline=None)
@given(
    mode=st.sampled_from(sorted(LAYERS)),
    sizes=st.tuples(*[st.integers(1, 9)] * 2),
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=5),
    layers=st.integers(1, 2),
    flags=st.tuples(*[st.booleans()] * 4),
    packed=st.booleans(),
    dtype=st.sampled_from([pf.float64, pf.float32, pf.bfloat16, pf.float16]),
    seed=st.integers(0, 2**32 - 1),
)
def test_layers_against_loops(mode, sizes, lengths, layers, flags, packed, dtype, seed):
    bidirectional, batch_first, bias, project = flags
    rng = np.random.default_rng(seed)
    how = {"proj_size": 1} if project and mode == "LSTM" and sizes[1] > 1 else {}
    layer = make(
        mode, *sizes, num_layers=layers, bias=bias, batch_first=batch_first,
        bidirectional=bidirectional, dtype=dtype, **how,
    )  # fmt: skip
    if not packed:
        lengths = [lengths[0]] * len(lengths)
    given_state = bool(rng.integers(2))
    start = states(layer, len(lengths), rng, zero=not given_state)
    xs = [pf.tensor(rng.normal(size=(n, sizes[0])), dtype=dtype) for n in lengths]
    want, h, c = reference(layer, [x.double().numpy() for x in xs], *start)
    tolerance = {pf.float64: 1e-12, pf.float32: 1e-5, pf.float16: 2e-2, pf.bfloat16: 0.15}[dtype]
    if packed:
        x = rnn.pack_sequence(xs, enforce_sorted=False)
    else:
        x = pf.stack(xs, 0 if batch_first else 1)
    out, last = layer(x, as_hx(layer, start, dtype) if given_state else None)
    if packed:
        got = rnn.unpack_sequence(out)
    else:
        got = out.unbind(0 if batch_first else 1)
    assert len(got) == len(want)
    for g, w in zip(got, want):
        assert g.dtype == dtype
        assert_allclose(g.detach().double().numpy(), w, rtol=tolerance, atol=tolerance)
    last = last if mode == "LSTM" else (last,)
    for g, w in zip(last, (h, c)):
        assert_allclose(g.detach().double().numpy(), w, rtol=tolerance, atol=tolerance)


def numeric(fn, tensors, directions, eps=1e-6):
    """The slope of fn along a direction, by central differences."""
    values = []
    for sign in (1, -1):
        with pf.no_grad():
            for t, d in zip(tensors, directions):
                t.add_(d, alpha=sign * eps)
        values.append(fn().item())
        with pf.no_grad():
            for t, d in zip(tensors, directions):
                t.sub_(d, alpha=sign * eps)
    return (values[0] - values[1]) / (2 * eps)


@pytest.mark.parametrize("how", ["padded", "packed", "projected", "both"])
@pytest.mark.parametrize("mode", sorted(LAYERS))
def test_first_and_second_derivatives(mode, how):
    pf.manual_seed(3)
    packed = how in ("packed", "both")
    more = {"proj_size": 2} if mode == "LSTM" and how in ("projected", "both") else {}
    layer = make(mode, 3, 4, num_layers=2, bidirectional=True, dtype=pf.float64, **more)
    rng = np.random.default_rng(5)
    x = pf.tensor(rng.normal(size=(4, 3, 3)), requires_grad=True)
    hx = as_hx(layer, states(layer, 3, rng), pf.float64)
    hx = hx if mode == "LSTM" else (hx,)
    leaves = [x, *hx, *layer.parameters()]
    for h in hx:
        h.requires_grad_()

    def loss():
        given = rnn.pack_padded_sequence(x, [4, 3, 1]) if packed else x
        out, last = layer(given, hx if mode == "LSTM" else hx[0])
        last = last if mode == "LSTM" else (last,)
        return ((out.data if packed else out) ** 2).sum() + sum((h**3).sum() for h in last)

    directions = [pf.tensor(rng.normal(size=tuple(t.shape))) for t in leaves]
    grads = pf.autograd.grad(loss(), leaves)
    slope = sum((g * d).sum() for g, d in zip(grads, directions)).item()
    assert_allclose(slope, numeric(loss, leaves, directions), rtol=1e-6)

    def slopes():
        return sum((g**2).sum() for g in pf.autograd.grad(loss(), leaves, create_graph=True))

    second = pf.autograd.grad(slopes(), leaves)
    slope = sum((g * d).sum() for g, d in zip(second, directions)).item()
    assert_allclose(slope, numeric(lambda: slopes().detach(), leaves, directions), rtol=1e-5)


def made_of_cells(layer, x, hx, lengths):
    """One layer both ways as cells, sequence by sequence, in operations alone: outputs of all
    sequences, the last states, [2, batch, ...] each."""
    step = {"LSTM": pf.lstm_cell, "GRU": pf.gru_cell}.get(layer.mode)
    step = step or (pf.rnn_tanh_cell if layer.mode == "RNN_TANH" else pf.rnn_relu_cell)
    outs, lasts = [], [[] for _ in hx]
    for n, length in enumerate(lengths):
        both = []
        for d, end in enumerate(("", "_reverse")):
            w = [getattr(layer, f"{k}_l0{end}") for k in ("weight_ih", "weight_hh")]
            w += [getattr(layer, f"{k}_l0{end}") for k in ("bias_ih", "bias_hh")]
            state, out = [h[d, n] for h in hx], [None] * length
            for t in range(length)[:: 1 - 2 * d]:
                if layer.proj_size:
                    gates = w[0] @ x[t, n] + w[2] + w[1] @ state[0] + w[3]
                    i, f, c, o = gates.chunk(4)
                    c = f.sigmoid() * state[1] + i.sigmoid() * c.tanh()
                    state = [getattr(layer, f"weight_hr_l0{end}") @ (o.sigmoid() * c.tanh()), c]
                elif layer.mode == "LSTM":
                    state = list(step(x[t, n], state, *w))
                else:
                    state = [step(x[t, n], state[0], *w)]
                out[t] = state[0]
            both.append(pf.stack(out))
            for last, h in zip(lasts, state):
                last.append(h)
        outs.append(pf.cat(both, -1))
    return outs, [pf.stack([pf.stack(h[d::2]) for d in (0, 1)]) for h in lasts]


LENGTHS = {
    "padded": [5, 5, 5],
    "even": [5, 5, 5],
    "sorted": [6, 4, 4, 1],
    "unsorted": [2, 5, 1, 3, 5],
    "one": [4],
    "many": list(range(1, 31)),
}


@pytest.mark.parametrize("dtype", [pf.float32, pf.float64, pf.bfloat16, pf.float16])
@pytest.mark.parametrize("mode", [*sorted(LAYERS), "projected"])
@pytest.mark.parametrize(
    ("how", "hidden"),
    [("padded", 37), ("even", 2), ("sorted", 37), ("unsorted", 8), ("one", 5), ("many", 4),
     ("sorted", 300), ("unsorted", 64)],
)  # fmt: skip
def test_kernel_against_cells(mode, how, hidden, dtype):
    """The kernel that all steps of a layer are, and cells made of operations, in float64: values
    and all gradients."""
    lengths, packed = LENGTHS[how], how != "padded"
    if hidden == 300:
        lengths = lengths[1:]
    batch = len(lengths)
    pf.manual_seed(7)
    more = {"proj_size": max(1, 2 * hidden // 3)} if mode == "projected" else {}
    mode = "LSTM" if mode == "projected" else mode
    layer = make(mode, 5, hidden, bidirectional=True, **more)
    width = layer.proj_size or hidden
    x, g = pf.randn(max(lengths), batch, 5), pf.randn(max(lengths), batch, 2 * width)
    hx = [pf.randn(2, batch, n) for n in (width, hidden)[: 2 if mode == "LSTM" else 1]]

    def run(dtype, cells):
        own = copy.deepcopy(layer).to(dtype)
        leaves = [t.to(dtype).requires_grad_() for t in (x, *hx)]
        if cells:
            outs, last = made_of_cells(own, leaves[0], leaves[1:], lengths)
        else:
            data = leaves[0]
            if packed:
                data = rnn.pack_padded_sequence(data, lengths, enforce_sorted=how == "sorted")
            out, last = own(data, tuple(leaves[1:]) if mode == "LSTM" else leaves[1])
            outs = rnn.unpack_sequence(out) if packed else out.unbind(1)
            last = last if mode == "LSTM" else (last,)
        leaves += own.parameters()
        loss = sum((h * h).sum() for h in last)
        for n, out in enumerate(outs):
            loss = loss + (out * g[: lengths[n], n].to(dtype)).sum()
        return [*outs, *last, *pf.autograd.grad(loss, leaves)]

    want = run(pf.float64, True)
    tol = {pf.float64: 1e-11, pf.float32: 3e-5, pf.bfloat16: 0.08, pf.float16: 0.02}[dtype]
    # What rounding moves across relu's corner has another gradient.
    corners = mode == "RNN_RELU" and dtype in (pf.bfloat16, pf.float16)
    for a, b in zip(run(dtype, False), want[: batch if corners else None]):
        assert a.dtype == dtype
        b = b.detach().numpy()
        assert_allclose(a.detach().double().numpy(), b, rtol=tol, atol=tol * np.abs(b).max())


@pytest.mark.parametrize("mode", sorted(LAYERS))
@pytest.mark.parametrize("bidirectional", [False, True])
def test_sequences_do_not_see_each_other(mode, bidirectional):
    layer = make(mode, 5, 37, bidirectional=bidirectional)
    xs = [pf.randn(n, 5) for n in (4, 7, 7, 2, 1)]
    together = rnn.unpack_sequence(layer(rnn.pack_sequence(xs, enforce_sorted=False))[0])
    for x, got in zip(xs, together):
        alone = layer(x)[0].detach()
        if pf.get_device().type == "cpu":
            assert pf.equal(alone, got.detach())
        assert_allclose(alone.numpy(), got.detach().numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mode", sorted(LAYERS))
def test_some_gradients_alone(mode):
    """What is not asked for, or comes from nowhere, is as if it were 0."""
    layer = make(mode, 3, 4, dtype=pf.float64)
    xs = [pf.randn(n, 3, dtype=pf.float64) for n in (3, 1, 2)]
    x = rnn.pack_sequence(xs, enforce_sorted=False)

    def grads(parts, of):
        out, last = layer(x)
        last = last if mode == "LSTM" else (last,)
        losses = [(out.data**2).sum(), *((h**3).sum() for h in last)]
        return pf.autograd.grad(sum(losses[i] for i in parts), of)

    weights = list(layer.parameters())
    every = range(3 if mode == "LSTM" else 2)
    whole = grads(every, weights)
    alone = [grads([i], weights) for i in every]
    for i, w in enumerate(weights):
        assert_allclose(sum(a[i].numpy() for a in alone), whole[i].numpy(), rtol=1e-9, atol=1e-12)
        assert_allclose(grads(every, [w])[0].numpy(), whole[i].numpy(), rtol=1e-12)


def test_one_tensor_as_both_states():
    layer = nn.LSTM(2, 3, dtype=pf.float64)
    x, h = pf.randn(4, 2, 2, dtype=pf.float64), pf.randn(1, 2, 3, dtype=pf.float64)
    h.requires_grad_()

    def second(*first):
        (g,) = pf.autograd.grad((layer(x, first)[0] ** 2).sum(), h, create_graph=True)
        return pf.autograd.grad((g**3).sum(), h)[0].numpy()

    assert_allclose(second(h, h), second(h.clone(), h.clone()), rtol=1e-12)


@pytest.mark.parametrize("mode", sorted(LAYERS))
def test_extremes_stay_in_their_sequences(mode):
    layer = make(mode, 2, 5)
    x = pf.randn(3, 4, 2)
    x[1, 1] = float("nan")
    x[0, 2] = 1e4
    x[0, 3] = float("-inf")
    out = layer(x)[0].detach().numpy()
    assert np.isnan(out[1:, 1]).all() and not np.isnan(out[:, [0, 2]]).any()
    assert not np.isnan(out[0, 1]).any()


@pytest.mark.parametrize("mode", sorted(LAYERS))
def test_without_a_batch_and_with_an_empty_one(mode):
    layer = make(mode, 3, 4, num_layers=2, bidirectional=True)
    x = pf.randn(5, 3)
    out, last = layer(x)
    whole, _ = layer(x.unsqueeze(1))
    assert_array_equal(out.detach().numpy(), whole[:, 0].detach().numpy())
    hidden = last[0] if mode == "LSTM" else last
    assert tuple(hidden.shape) == (4, 4)
    out, _ = layer(pf.zeros(5, 0, 3))
    assert tuple(out.shape) == (5, 0, 8)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("mode", ["LSTM", "GRU", "RNN_TANH", "RNN_RELU"])
def test_cells_are_steps_of_layers(mode, bias):
    layer = make(mode, 3, 4, bias=bias, dtype=pf.float64)
    how = {"nonlinearity": "relu"} if mode == "RNN_RELU" else {}
    cell = {"LSTM": nn.LSTMCell, "GRU": nn.GRUCell}.get(mode, nn.RNNCell)(
        3, 4, bias=bias, dtype=pf.float64, **how
    )
    cell.load_state_dict({k.removesuffix("_l0"): v for k, v in layer.state_dict().items()})
    x = pf.randn(5, 2, 3, dtype=pf.float64)
    want, _ = layer(x)
    for one in (False, True):
        state = None
        for t in range(5):
            state = cell(x[t, 0] if one else x[t], state)
            h = state[0] if mode == "LSTM" else state
            at = want[t, 0] if one else want[t]
            assert_allclose(h.detach().numpy(), at.detach().numpy(), rtol=1e-12)


def test_names_start_values_and_copies():
    layer = nn.LSTM(3, 16, 2, bidirectional=True, proj_size=5)
    kinds = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
    ends = ("_l0", "_l0_reverse", "_l1", "_l1_reverse")
    assert list(layer.state_dict()) == [k + e for e in ends for k in kinds]
    for p in layer.parameters():
        assert p.detach().abs().max().item() <= 0.25
    assert tuple(layer.weight_ih_l1.shape) == (64, 10)
    assert repr(nn.GRU(2, 3, bias=False)) == "GRU(2, 3, bias=False)"
    layer.flatten_parameters()
    other = copy.deepcopy(layer)
    x = pf.randn(2, 1, 3)
    assert_array_equal(other(x)[0].detach().numpy(), layer(x)[0].detach().numpy())
    assert other.all_weights[0][0] is other.weight_ih_l0


def test_dropout_stands_between_layers():
    layer = nn.GRU(3, 4, 2, dropout=1.0, bias=False)
    x = pf.randn(2, 3, 3)
    assert layer(x)[0].abs().max().item() == 0
    assert layer.eval()(x)[0].abs().max().item() > 0
    with pytest.warns(UserWarning, match="between layers"):
        nn.GRU(3, 4, dropout=0.5)


def test_autocast_lowers():
    layer = nn.LSTM(3, 4)
    x = pf.randn(2, 3, 3)
    with pf.autocast(x.device.type, dtype=pf.bfloat16):
        out, (h, c) = layer(x)
        cell = nn.LSTMCell(3, 4)(x[0])
    assert out.dtype == h.dtype == c.dtype == cell[0].dtype == pf.bfloat16
    out.float().sum().backward()
    assert layer.weight_hh_l0.grad.dtype == pf.float32


def test_packed_sequences():
    xs = [pf.arange(n * 2, dtype=pf.float32).reshape(n, 2) + 100 * n for n in (2, 4, 1)]
    p = rnn.pack_sequence(xs, enforce_sorted=False)
    data, sizes, order, back = p
    assert sizes.tolist() == [3, 2, 1, 1]
    assert order.tolist() == [1, 0, 2] and back.tolist() == [1, 0, 2]
    assert data.tolist() == [xs[1][0].tolist(), xs[0][0].tolist(), xs[2][0].tolist(),
                             xs[1][1].tolist(), xs[0][1].tolist(), *xs[1][2:].tolist()]  # fmt: skip
    for got, x in zip(rnn.unpack_sequence(p), xs):
        assert_array_equal(got.numpy(), x.numpy())
    padded, lengths = rnn.pad_packed_sequence(p, True, -1.0, 5)
    assert tuple(padded.shape) == (3, 5, 2) and lengths.tolist() == [2, 4, 1]
    assert lengths.device.type == sizes.device.type == "cpu"
    assert padded[2, 1:].tolist() == [[-1.0, -1.0]] * 4
    assert p.double().data.dtype == pf.float64 and p.to(pf.float32) is p and p.float() is p
    assert p.is_cuda == data.is_cuda and not p.is_pinned() and p.cpu().batch_sizes is sizes
    assert rnn.invert_permutation(None) is None
    assert rnn.invert_permutation(pf.tensor([2, 0, 1])).tolist() == [1, 2, 0]
    assert isinstance(rnn.PackedSequence(data, sizes), tuple)


def test_padding_has_gradients():
    x = pf.ones(3, 2, 1, requires_grad=True)
    p = rnn.pack_padded_sequence(x, pf.tensor([1, 3]), enforce_sorted=False)
    (rnn.pad_packed_sequence(p)[0] * pf.arange(6.0).reshape(3, 2, 1)).sum().backward()
    assert x.grad[:, :, 0].tolist() == [[0.0, 1.0], [0.0, 3.0], [0.0, 5.0]]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: rnn.pack_padded_sequence(pf.ones(2, 2, 1), [2, 0]), ValueError),
        (lambda: rnn.pack_padded_sequence(pf.ones(2, 2, 1), [1, 2]), ValueError),
        (lambda: pf.gru(pf.ones(2, 3), pf.tensor([2, 0]), pf.ones(1, 2, 4),
                        [pf.ones(12, 3), pf.ones(12, 4)], False, 1, 0.0, False, False),
         ValueError),
        (lambda: pf.gru(pf.ones(2, 3), pf.tensor([2, 1]), pf.ones(1, 2, 4),
                        [pf.ones(12, 3), pf.ones(12, 4)], False, 1, 0.0, False, False),
         pf.ShapeError),
        (lambda: rnn.pack_padded_sequence(pf.ones(2, 2, 1), [3, 2]), ValueError),
        (lambda: rnn.pack_padded_sequence(pf.ones(2, 2, 1), [2]), ValueError),
        (lambda: rnn.pad_packed_sequence(rnn.pack_sequence([pf.ones(3)]), total_length=2),
         ValueError),
        (lambda: nn.LSTM(3, 4)(pf.ones(0, 2, 3)), pf.ShapeError),
        (lambda: nn.LSTM(3, 4)(pf.ones(2, 2, 5)), pf.ShapeError),
        (lambda: nn.LSTM(3, 4)(pf.ones(2, 2, 3), pf.ones(1, 2, 4)), TypeError),
        (lambda: nn.GRU(3, 4)(pf.ones(2, 2, 3), pf.ones(1, 3, 4)), pf.ShapeError),
        (lambda: nn.GRU(3, 4)(pf.ones(3)), pf.ShapeError),
        (lambda: nn.GRU(3, 4)(pf.ones(2, 2, 3, dtype=pf.float64)), pf.DTypeError),
        (lambda: nn.GRUCell(3, 4)(pf.ones(2, 3), pf.ones(3, 4)), pf.ShapeError),
        (lambda: nn.GRU(3, 0), ValueError),
        (lambda: nn.LSTM(3, 4, proj_size=4), ValueError),
        (lambda: nn.RNN(3, 4, nonlinearity="sin"), ValueError),
        (lambda: pf.gru(pf.ones(2, 2, 3), pf.ones(1, 2, 4), [pf.ones(12, 3)], False, 1, 0.0, False,
                        False, False), ValueError),
        (lambda: pf.rnn_tanh(pf.ones(3, 3), pf.tensor([1, 2]), pf.ones(1, 1, 4),
                             [pf.ones(4, 3), pf.ones(4, 4)], False, 1, 0.0, False, False),
         ValueError),
    ],
)  # fmt: skip
def test_errors(call, error):
    with pytest.raises(error):
        call()


KEEPING = {
    "RNN": lambda: nn.RNN(9, 37),
    "LSTM": lambda: nn.LSTM(9, 37, num_layers=2, bidirectional=True),
    "LSTM projected": lambda: nn.LSTM(9, 37, proj_size=5, bias=False),
    "GRU": lambda: nn.GRU(9, 37, bidirectional=True),
}


@pytest.mark.parametrize("dtype", [pf.float32, pf.float64, pf.bfloat16])
@pytest.mark.parametrize("name", KEEPING)
def test_weights_kept_in_panels(name, dtype):
    """Calls without gradients say what those with gradients do, and see what was written between them."""
    pf.manual_seed(5)
    layer, x = KEEPING[name]().to(dtype), pf.randn(4, 3, 9, dtype=dtype)
    weight = layer.weight_hh_l0

    def check():
        want = layer(x)[0].detach().float().numpy().copy()
        with pf.no_grad():
            for n in range(3):
                assert_array_equal(layer(x)[0].float().numpy(), want, err_msg=str(n))
        return want

    def allocated():
        return pf.debug.memory_stats("cpu")["allocated"]

    gc.collect()  # what tests before have left
    start = allocated()
    first = check()
    if weight.device.type == "cpu" and "PYFLAME_EAGER" not in os.environ:
        assert allocated() >= start + weight.numel() * weight.element_size()
    with pf.no_grad():
        weight.mul_(0.5)
    assert (check() != first).any()
    before = layer.state_dict()["weight_hh_l0"].clone()
    optimizer = pf.optim.SGD(layer.parameters(), lr=0.1)
    layer(x)[0].sum().backward()
    optimizer.step()
    assert (before != weight).any()
    check()
    with pf.no_grad():
        weight[3:5] = 0
    check()
    weight.data = pf.randn_like(weight)
    check()
