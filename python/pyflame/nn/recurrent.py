"""Recurrent layers and their cells. Names and meaning as in torch.nn."""

import math
import warnings

from .. import _C, _ops
from .module import Module
from .parameter import Parameter
from .sizes import whole_numbers
from .utils.rnn import PackedSequence

__all__ = ["RNNBase", "RNN", "LSTM", "GRU", "RNNCellBase", "RNNCell", "LSTMCell", "GRUCell"]
_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


def _start(layer):
    """Start values uniform in ±1/sqrt(hidden_size)."""
    bound = 1 / math.sqrt(layer.hidden_size) if layer.hidden_size > 0 else 0.0
    for p in layer.parameters():
        _ops._init_uniform_(p, -bound, bound)


class RNNBase(Module):
    """What recurrent layers share: weights of layers and directions by PyTorch's names."""

    def __init__(
        self, mode, input_size, hidden_size, num_layers=1, bias=True, batch_first=False,
        dropout=0.0, bidirectional=False, proj_size=0, device=None, dtype=None,
    ):  # fmt: skip
        super().__init__()
        name = f"pf.nn.{type(self).__name__}"
        if mode not in _GATES:
            raise ValueError(f"{name}: got mode {mode!r}; expected one of {tuple(_GATES)}")
        if isinstance(dropout, bool) or not 0 <= dropout <= 1:
            raise ValueError(f"{name}: got dropout {dropout!r}; expected a number from 0 to 1")
        whole_numbers(self, input_size=input_size)
        for what, size in (("hidden_size", hidden_size), ("num_layers", num_layers)):
            if not isinstance(size, int):
                raise TypeError(f"{name}: got {what} {size!r}; expected a whole number")
            if size <= 0:
                raise ValueError(f"{name}: got {what} {size}; expected 1 or more")
        if not 0 <= proj_size < hidden_size:
            raise ValueError(
                f"{name}: got proj_size {proj_size}; expected 0 (none) or less than hidden_size, "
                f"{hidden_size}"
            )
        if proj_size and mode != "LSTM":
            raise ValueError(f"{name}: got proj_size {proj_size}; expected 0; only an LSTM has it")
        if dropout > 0 and num_layers == 1:
            warnings.warn(
                f"{name}: got dropout {dropout} and one layer; dropout stands between layers, so "
                "there is none",
                stacklevel=3,
            )
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        out, rows = proj_size or hidden_size, _GATES[mode] * hidden_size
        self._all_weights = []
        for layer in range(num_layers):
            features = input_size if layer == 0 else out * self._directions
            for end in ("", "_reverse")[: self._directions]:
                shapes = {"weight_ih": (rows, features), "weight_hh": (rows, out)}
                if bias:
                    shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
                if proj_size:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                names = []
                for kind, shape in shapes.items():
                    names.append(f"{kind}_l{layer}{end}")
                    empty = _ops.empty(shape, device=device, dtype=dtype)
                    self.register_parameter(names[-1], Parameter(empty))
                self._all_weights.append(names)
        self.reset_parameters()

    def reset_parameters(self):
        _start(self)

    @property
    def _directions(self):
        return 2 if self.bidirectional else 1

    @property
    def all_weights(self):
        """The weights of each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    @property
    def _flat_weights(self):
        return [w for weights in self.all_weights for w in weights]

    @property
    def _flat_weights_names(self):
        return [name for names in self._all_weights for name in names]

    def flatten_parameters(self):
        """Nothing: weights are read where they lie."""

    def extra_repr(self):
        text = f"{self.input_size}, {self.hidden_size}"
        for name, usual in (
            ("proj_size", 0),
            ("num_layers", 1),
            ("bias", True),
            ("batch_first", False),
            ("dropout", 0),
            ("bidirectional", False),
        ):
            if getattr(self, name) != usual:
                text += f", {name}={getattr(self, name)}"
        return text

    def _states(self, hx, batch, batched, order, like):
        """The states as a list [layers * directions, batch, ...], zeros without hx."""
        sizes = [self.proj_size or self.hidden_size] + [self.hidden_size] * (self.mode == "LSTM")
        shapes = [(self.num_layers * self._directions, batch, n) for n in sizes]
        if hx is None:
            return [_ops.zeros(s, dtype=like.dtype, device=like.device) for s in shapes]
        name = f"pf.nn.{type(self).__name__}"
        if self.mode != "LSTM":
            hx = (hx,)
        elif not isinstance(hx, (tuple, list)) or len(hx) != 2:
            raise TypeError(f"{name}: got a state that is not (h, c); expected a tuple of both")
        if not batched:
            hx = [h.unsqueeze(1) if h.dim() == 2 else h for h in hx]
        for h, shape in zip(hx, shapes):
            if tuple(h.shape) != shape:
                want = shape if batched else (shape[0], shape[2])
                raise _C.ShapeError(
                    f"{name}: got a state of shape {tuple(h.shape)}; expected {want}; check the "
                    "batch of hx, which is its second dimension"
                )
        return [h if order is None else h.index_select(1, order) for h in hx]

    def forward(self, input, hx=None):
        lstm = self.mode == "LSTM"
        function = getattr(_ops, self.mode.lower())
        how = (
            self._flat_weights, self.bias, self.num_layers, self.dropout, self.training,
            self.bidirectional,
        )  # fmt: skip
        if isinstance(input, PackedSequence):
            data, batch_sizes, order, back = input
            self._check_features(data)
            states = self._states(hx, int(batch_sizes[0]), True, order, data)
            out, *last = function(data, batch_sizes, states if lstm else states[0], *how)
            out = PackedSequence(out, batch_sizes, order, back)
            if back is not None:
                last = [h.index_select(1, back) for h in last]
        else:
            batched = input.dim() == 3
            if not batched and input.dim() != 2:
                raise _C.ShapeError(
                    f"pf.nn.{type(self).__name__}: got an input of shape {tuple(input.shape)}; "
                    "expected 3 dimensions, or 2 without a batch"
                )
            self._check_features(input)
            batch_dim = 0 if self.batch_first else 1
            x = input if batched else input.unsqueeze(batch_dim)
            states = self._states(hx, x.shape[batch_dim], batched, None, x)
            out, *last = function(x, states if lstm else states[0], *how, self.batch_first)
            if not batched:
                out, last = out.squeeze(batch_dim), [h.squeeze(1) for h in last]
        return out, tuple(last) if lstm else last[0]

    def _check_features(self, input):
        if input.shape[-1] != self.input_size:
            raise _C.ShapeError(
                f"pf.nn.{type(self).__name__}: got an input of shape {tuple(input.shape)}; expected "
                f"{self.input_size} features in the last dimension"
            )


class RNN(RNNBase):
    """h = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu, over [steps, batch, features].

    Returns the outputs of all steps and the last states. The input may be a PackedSequence, have
    the batch first (batch_first=True) or none; dropout stands between layers.
    """

    def __init__(
        self, input_size, hidden_size, num_layers=1, nonlinearity="tanh", bias=True,
        batch_first=False, dropout=0.0, bidirectional=False, device=None, dtype=None,
    ):  # fmt: skip
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(
                f"pf.nn.RNN: got nonlinearity {nonlinearity!r}; expected 'tanh' or 'relu'"
            )
        self.nonlinearity = nonlinearity
        super().__init__(
            f"RNN_{nonlinearity.upper()}", input_size, hidden_size, num_layers, bias, batch_first,
            dropout, bidirectional, 0, device, dtype,
        )  # fmt: skip


class LSTM(RNNBase):
    """Long short-term memory: input, forget and output gates, a cell state beside h.

    Returns the outputs and (h, c). With proj_size, h is W_hr h and as wide as that.
    """

    def __init__(
        self, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0,
        bidirectional=False, proj_size=0, device=None, dtype=None,
    ):  # fmt: skip
        super().__init__(
            "LSTM", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional,
            proj_size, device, dtype,
        )  # fmt: skip


class GRU(RNNBase):
    """Gated recurrent units: reset and update gates. Returns the outputs and h."""

    def __init__(
        self, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0,
        bidirectional=False, device=None, dtype=None,
    ):  # fmt: skip
        super().__init__(
            "GRU", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional,
            0, device, dtype,
        )  # fmt: skip


class RNNCellBase(Module):
    """What cells share: weights, and a state that is zeros unless given."""

    def __init__(self, input_size, hidden_size, bias, num_chunks, device=None, dtype=None):
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size

        def new(*shape):
            return Parameter(_ops.empty(shape, device=device, dtype=dtype))

        self.weight_ih = new(rows, input_size)
        self.weight_hh = new(rows, hidden_size)
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, new(rows) if bias else None)
        self.reset_parameters()

    def reset_parameters(self):
        _start(self)

    def extra_repr(self):
        text = f"{self.input_size}, {self.hidden_size}"
        if not self.bias:
            text += ", bias=False"
        if getattr(self, "nonlinearity", "tanh") != "tanh":
            text += f", nonlinearity={self.nonlinearity}"
        return text

    def _zeros(self, input):
        if input.dim() not in (1, 2):
            raise _C.ShapeError(
                f"pf.nn.{type(self).__name__}: got an input of shape {tuple(input.shape)}; expected "
                "[batch, features] or [features]"
            )
        shape = (*input.shape[:-1], self.hidden_size)
        return _ops.zeros(shape, dtype=input.dtype, device=input.device)

    def _step(self, function, input, hx):
        return function(
            input, hx, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh
        )  # fmt: skip


class RNNCell(RNNCellBase):
    """One step of an RNN with tanh or relu: the next h."""

    def __init__(
        self, input_size, hidden_size, bias=True, nonlinearity="tanh", device=None, dtype=None
    ):
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(
                f"pf.nn.RNNCell: got nonlinearity {nonlinearity!r}; expected 'tanh' or 'relu'"
            )
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input, hx=None):
        function = _ops.rnn_tanh_cell if self.nonlinearity == "tanh" else _ops.rnn_relu_cell
        return self._step(function, input, self._zeros(input) if hx is None else hx)


class LSTMCell(RNNCellBase):
    """One step of an LSTM: the next (h, c)."""

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input, hx=None):
        if hx is None:
            hx = (self._zeros(input),) * 2
        return tuple(self._step(_ops.lstm_cell, input, hx))


class GRUCell(RNNCellBase):
    """One step of a GRU: the next h."""

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input, hx=None):
        return self._step(_ops.gru_cell, input, self._zeros(input) if hx is None else hx)
