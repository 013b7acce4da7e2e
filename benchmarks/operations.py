"""A call of every operation of the registry, for tools/sweep.py.

Each is one expression in PyTorch's API over `t` (the module), `F` (its nn.functional) and the values
of `Data`. Pointwise rows and in-place forms need none: their calls follow from the schema.
"""

import math
import re


class Data:
    """Random operands by name, made when they are first asked for; n elements each unless said.

    Those of FLOATS are what gradients are taken of.
    """

    FLOATS = ("x", "y", "z", "positive", "unit", "a", "b", "c", "row")
    FLOATS += ("batch", "batch2", "points", "heads")

    def __init__(self, torch, n, device):
        self.t, self.F, self.n, self.device = torch, torch.nn.functional, n, device
        self.side = max(2, math.isqrt(n))  # of a square matrix with n elements
        self.g = torch.Generator("cpu").manual_seed(7)
        self.needs_grad = False

    def __getitem__(self, name):
        value = getattr(type(self), "make_" + name)(self)
        if not isinstance(value, (int, tuple)):
            value = value.to(self.device)
            if self.needs_grad and name in self.FLOATS:
                value.requires_grad_()
        self.__dict__[name] = value
        return value

    def __getattr__(self, name):
        if hasattr(type(self), "make_" + name):
            return self[name]
        raise AttributeError(name)

    def ints(self, high, *shape):
        return self.t.randint(0, high, shape, generator=self.g, device="cpu")

    def normal(self, *shape):
        return self.t.randn(*shape, generator=self.g, device="cpu")

    def uniform(self):
        return self.t.rand(self.n, generator=self.g, device="cpu")

    def make_x(self):
        return self.normal(self.n)

    make_y = make_z = make_x

    def make_positive(self):
        return self.uniform() + 0.5

    def make_unit(self):  # where asin, logit, erfinv and log are defined
        return self.uniform() * 0.9 + 0.05

    def make_over(self):  # where acosh is
        return self.uniform() + 1.1

    def make_a(self):  # a square matrix
        return self.normal(self.side, self.side)

    make_b = make_c = make_a

    def make_row(self):
        return self.normal(self.side)

    def make_batch(self):  # 16 matrices
        return self.normal(16, max(2, self.side // 4), max(2, self.side // 4))

    make_batch2 = make_batch

    def make_points(self):  # a distance matrix of them has n elements
        return self.normal(self.side, 32)

    def make_few(self):  # all pairs of them are n
        return self.normal(max(2, math.isqrt(self.n // 32)), 32)

    def make_heads(self):
        return self.normal(4, 8, max(4, self.n // 2048), 64)

    def make_class(self):  # an index into a row for every row
        return self.ints(self.side, self.side)

    def make_at(self):  # an index of every element into n
        return self.ints(self.n, self.n)

    def make_rows(self):
        return self.ints(self.side, self.side)

    def make_columns(self):  # an index for every element of a matrix
        return self.ints(self.side, self.side, self.side)

    def make_count(self):
        return self.ints(100, self.n)

    make_count2 = make_count

    def make_few_counts(self):
        return self.ints(3, self.n)

    def make_mask(self):
        return self.uniform() > 0.5

    make_mask2 = make_mask

    def make_matrix_mask(self):
        return self.mask[: self.side * self.side].view(self.side, self.side)

    def make_sign(self):
        return self.mask.float() * 2 - 1

    def make_small(self):
        return self.normal(64)

    def make_bytes(self):
        side = max(32, self.side // 16 * 16)
        return (self.ints(18, side, side) - 9).to(self.t.int8)

    def make_sorted(self):
        return self.t.sort(self.normal(self.n))[0]


# Not calls on tensors, or PyFlame's own with a benchmark of their own.
LEFT_OUT = {
    "_init_calculate_gain": "a number from a name",
    "_warmup_cosine": "a number from numbers",
    "_zeros_beside": "zeros, on the device of another tensor",
    "_sgd": "PyTorch has it inside optimizers: benchmarks/cases.py",
    "_adamw": "PyTorch has it inside optimizers: benchmarks/cases.py",
    "_clip_grad_norm_": "inside clip_grad_norm_, with its list of parameters",
    "_clip_grad_value_": "inside clip_grad_value_",
    "_multi_norm": "inside clip_grad_norm_",
    "_found_nonfinite": "inside GradScaler",
    "_binned_sums": "inside VolumeProfileAnalyzer: benchmarks/volume_profile.py",
    "_init_linear_": "kaiming_uniform_ and uniform_ of the layer",
    "_init_embedding_": "normal_ of the layer",
}

CALLS = {
    # rows whose domain is not the whole line
    **{
        name: f"t.{name}(d.unit)"
        for name in ("asin", "acos", "atanh", "arcsin", "arccos", "arctanh", "logit", "erfinv")
    },
    **{
        name: f"t.{name}(d.positive)"
        for name in ("log", "log2", "log10", "sqrt", "rsqrt", "lgamma", "digamma")
    },
    "acosh": "t.acosh(d.over)",
    "arccosh": "t.arccosh(d.over)",
    "expit": "t.special.expit(d.x)",
    "pow": "t.pow(d.positive, d.y)",
    "float_power": "t.float_power(d.positive, d.y)",
    "xlogy": "t.xlogy(d.x, d.positive)",
    "polygamma": "t.polygamma(1, d.positive)",
    "prelu": "F.prelu(d.a, d.small[:1])",
    "lerp": "t.lerp(d.x, d.y, d.z)",
    "addcmul": "t.addcmul(d.x, d.y, d.z)",
    "addcdiv": "t.addcdiv(d.x, d.y, d.positive)",
    "clamp_min": "t.clamp_min(d.x, 0.5)",
    "clamp_max": "t.clamp_max(d.x, 0.5)",
    "clamp": "t.clamp(d.x, -0.5, 0.5)",
    "clip": "t.clip(d.x, -0.5, 0.5)",
    "masked_fill": "d.x.masked_fill(d.mask, 0.5)",
    "where": "t.where(d.mask, d.x, d.y)",
    "isclose": "t.isclose(d.x, d.y)",
    **{f"bitwise_{name}": f"t.bitwise_{name}(d.count, d.count2)" for name in ("and", "or", "xor")},
    "bitwise_not": "t.bitwise_not(d.count)",
    "bitwise_left_shift": "t.bitwise_left_shift(d.count, d.few_counts)",
    "bitwise_right_shift": "t.bitwise_right_shift(d.count, d.few_counts)",
    "ldexp": "t.ldexp(d.x, d.few_counts)",
    # attention, products
    "scaled_dot_product_attention": "F.scaled_dot_product_attention(d.heads, d.heads, d.heads, is_causal=True)",
    "flash_attention": "F.flash_attention(d.heads, d.heads, d.heads, right=0)[0]",
    "matmul": "t.matmul(d.a, d.b)",
    "mm": "t.mm(d.a, d.b)",
    "int_mm": "t._int_mm(d.bytes, d.bytes)",
    "_int_mm": "t._int_mm(d.bytes, d.bytes)",
    "bmm": "t.bmm(d.batch, d.batch2)",
    "batch_matmul": "t.bmm(d.batch, d.batch2)",
    "mv": "t.mv(d.a, d.row)",
    "dot": "t.dot(d.x, d.y)",
    "vdot": "t.vdot(d.x, d.y)",
    "vecdot": "t.linalg.vecdot(d.a, d.b)",
    "outer": "t.outer(d.row, d.row)",
    "ger": "t.ger(d.row, d.row)",
    "inner": "t.inner(d.a, d.row)",
    "addmm": "t.addmm(d.row, d.a, d.b)",
    "addmm_": "w.addmm_(d.a, d.b)",
    "addmv": "t.addmv(d.row, d.a, d.row)",
    "addr": "t.addr(d.a, d.row, d.row)",
    "baddbmm": "t.baddbmm(d.batch, d.batch, d.batch2)",
    "addbmm": "t.addbmm(d.batch[0], d.batch, d.batch2)",
    "linear": "F.linear(d.a, d.b, d.row)",
    "bilinear": "F.bilinear(d.points, d.points, d.batch.reshape(-1)[:8192].reshape(-1, 32, 32)[:4])"
    " if d.n >= 8192 else F.bilinear(d.points, d.points, d.normal(4, 32, 32).to(d.device))",
    "conv1d": "F.conv1d(d.batch, d.batch2[:, :, :2])",
    "einsum": "t.einsum('ij,kj->ik', d.a, d.b)",
    "tensordot": "t.tensordot(d.a, d.b, dims=1)",
    "kron": "t.kron(d.small, d.x[: max(1, d.n // 64)])",
    "trace": "t.trace(d.a)",
    "matrix_power": "t.linalg.matrix_power(d.a, 3)",
    "chain_matmul": "t.linalg.multi_dot([d.a, d.b, d.row])",
    "cross": "t.linalg.cross(d.x[: d.n // 3 * 3].view(-1, 3), d.y[: d.n // 3 * 3].view(-1, 3))",
    "linalg_cross": "t.linalg.cross(d.x[: d.n // 3 * 3].view(-1, 3), d.y[: d.n // 3 * 3].view(-1, 3))",
    "linalg_norm": "t.linalg.norm(d.a)",
    "linalg_vector_norm": "t.linalg.vector_norm(d.a, dim=1)",
    "linalg_matrix_norm": "t.linalg.matrix_norm(d.a)",
    "linalg_multi_dot": "t.linalg.multi_dot([d.a, d.b, d.row])",
    "linalg_vecdot": "t.linalg.vecdot(d.a, d.b)",
    "linalg_matrix_power": "t.linalg.matrix_power(d.a, 3)",
    "linalg_matmul": "t.linalg.matmul(d.a, d.b)",
    "linalg_diagonal": "t.linalg.diagonal(d.a)",
    # composed
    "diag": "t.diag(d.row)",
    "diag_embed": "t.diag_embed(d.row)",
    "diagflat": "t.diagflat(d.row)",
    "select_scatter": "t.select_scatter(d.a, d.row, 0, 1)",
    "slice_scatter": "t.slice_scatter(d.a, d.b[:2], 0, 0, 2)",
    "diagonal_scatter": "t.diagonal_scatter(d.a, d.row)",
    "hsplit": "t.hsplit(d.a[:, : d.side // 2 * 2], 2)",
    "vsplit": "t.vsplit(d.a[: d.side // 2 * 2], 2)",
    "dsplit": "t.dsplit(d.batch[..., : d.batch.shape[-1] // 2 * 2], 2)",
    "block_diag": "t.block_diag(d.a, d.b)",
    "cartesian_prod": "t.cartesian_prod(d.row, d.row)",
    "combinations": "t.combinations(d.row)",
    "histc": "t.histc(d.x, 100, -3, 3)",
    "histogram": "t.histogram(d.x, 100, range=(-3.0, 3.0))",  # PyTorch: on the CPU alone
    "isin": "t.isin(d.count, d.few_counts[:50])",
    "pad_sequence": "t.nn.utils.rnn.pad_sequence([d.a, d.b[:2], d.c])",
    "vander": "t.vander(d.row, 10)",
    "sum_to_size": "d.a.sum_to_size(1, d.side)",
    "is_same_size": "t.is_same_size(d.a, d.b)",
    "is_nonzero": "t.is_nonzero(d.small[0])",
    "unravel_index": "t.unravel_index(d.at, (d.n // 2 + 1, 2))",
    "dropout1d": "F.dropout1d(d.batch)",
    "dropout2d": "F.dropout2d(d.batch.unsqueeze(1))",
    "dropout3d": "F.dropout3d(d.batch.unsqueeze(1).unsqueeze(1))",
    # creation
    "empty": "t.empty(d.n)",
    "zeros": "t.zeros(d.n)",
    "ones": "t.ones(d.n)",
    "full": "t.full((d.n,), 2.5)",
    "empty_like": "t.empty_like(d.x)",
    "zeros_like": "t.zeros_like(d.x)",
    "ones_like": "t.ones_like(d.x)",
    "full_like": "t.full_like(d.x, 2.5)",
    "new_empty": "d.x.new_empty(d.n)",
    "new_zeros": "d.x.new_zeros(d.n)",
    "new_ones": "d.x.new_ones(d.n)",
    "new_full": "d.x.new_full((d.n,), 2.5)",
    "arange": "t.arange(d.n)",
    "linspace": "t.linspace(0, 1, d.n)",
    "logspace": "t.logspace(0, 1, d.n)",
    "eye": "t.eye(d.side)",
    "scalar_tensor": "t.scalar_tensor(2.5)",
    "tril_indices": "t.tril_indices(d.side, d.side)",
    "triu_indices": "t.triu_indices(d.side, d.side)",
    "meshgrid": "t.meshgrid(d.row, d.row, indexing='ij')",
    # distances
    "cosine_similarity": "F.cosine_similarity(d.a, d.b)",
    "pairwise_distance": "F.pairwise_distance(d.a, d.b)",
    "cdist": "t.cdist(d.points, d.points)",
    "pdist": "F.pdist(d.points)",
    "dist": "t.dist(d.x, d.y)",
    "normalize": "F.normalize(d.a)",
    # indexing
    "index": "d.x[d.at]",
    "index_select": "t.index_select(d.a, 0, d.rows)",
    "gather": "t.gather(d.a, 1, d.columns)",
    "take": "t.take(d.a, d.columns)",
    "take_along_dim": "t.take_along_dim(d.a, d.columns, 1)",
    "embedding": "F.embedding(d.rows, d.a)",
    "nonzero": "t.nonzero(d.mask)",
    "argwhere": "t.argwhere(d.mask)",
    "masked_select": "t.masked_select(d.x, d.mask)",
    "masked_scatter": "d.x.masked_scatter(d.mask, d.y)",
    "one_hot": "F.one_hot(d.count[: max(1, d.n // 100)], 100)",
    "bincount": "t.bincount(d.count)",
    "searchsorted": "t.searchsorted(d.sorted, d.y)",
    "bucketize": "t.bucketize(d.y, d.sorted)",
    "scatter": "t.scatter(d.a, 1, d.columns, d.b)",
    "scatter_add": "t.scatter_add(d.a, 1, d.columns, d.b)",
    "scatter_reduce": "t.scatter_reduce(d.a, 1, d.columns, d.b, 'sum')",
    "index_add": "t.index_add(d.a, 0, d.rows, d.b)",
    "index_copy": "t.index_copy(d.a, 0, d.rows, d.b)",
    "index_fill": "t.index_fill(d.a, 0, d.rows, 0.5)",
    "index_put": "t.index_put(d.x, (d.at,), d.y, True)",
    "put": "t.Tensor.put(d.x, d.at, d.y)",
    # losses
    "cross_entropy": "F.cross_entropy(d.a, getattr(d, 'class'))",
    "linear_cross_entropy": "F.linear_cross_entropy(d.a, d.b, getattr(d, 'class'))",
    "nll_loss": "F.nll_loss(d.a, getattr(d, 'class'))",
    "mse_loss": "F.mse_loss(d.x, d.y)",
    "l1_loss": "F.l1_loss(d.x, d.y)",
    "smooth_l1_loss": "F.smooth_l1_loss(d.x, d.y)",
    "huber_loss": "F.huber_loss(d.x, d.y)",
    "binary_cross_entropy": "F.binary_cross_entropy(d.unit, d.mask.float())",
    "bce_loss": "F.binary_cross_entropy(d.unit, d.mask.float())",
    "binary_cross_entropy_with_logits": "F.binary_cross_entropy_with_logits(d.x, d.mask.float())",
    "kl_div": "F.kl_div(d.x, d.unit)",
    "poisson_nll_loss": "F.poisson_nll_loss(d.x, d.positive)",
    "gaussian_nll_loss": "F.gaussian_nll_loss(d.x, d.y, d.positive)",
    "hinge_embedding_loss": "F.hinge_embedding_loss(d.x, d.sign)",
    "cosine_embedding_loss": "F.cosine_embedding_loss(d.a, d.b, d.sign[: d.side])",
    "margin_ranking_loss": "F.margin_ranking_loss(d.x, d.y, d.sign)",
    "triplet_margin_loss": "F.triplet_margin_loss(d.a, d.b, d.c)",
    "soft_margin_loss": "F.soft_margin_loss(d.x, d.sign)",
    "multilabel_soft_margin_loss": "F.multilabel_soft_margin_loss(d.a, d.matrix_mask.float())",
    "multi_margin_loss": "F.multi_margin_loss(d.a, getattr(d, 'class'))",
    # norms, softmax
    "layer_norm": "F.layer_norm(d.a, (d.side,), d.row, d.row)",
    "rms_norm": "F.rms_norm(d.a, (d.side,), d.row)",
    "softmax": "t.softmax(d.a, -1)",
    "log_softmax": "t.log_softmax(d.a, -1)",
    "softmin": "F.softmin(d.a, -1)",
    "glu": "F.glu(d.x[: d.n // 2 * 2])",
    "logsumexp": "t.logsumexp(d.a, 1)",
    # random
    "randn": "t.randn(d.n)",
    "rand": "t.rand(d.n)",
    "randint": "t.randint(0, 100, (d.n,))",
    "randn_like": "t.randn_like(d.x)",
    "rand_like": "t.rand_like(d.x)",
    "randint_like": "t.randint_like(d.x, 0, 100)",
    "normal": "t.normal(d.x, 1.0)",
    "randperm": "t.randperm(d.n)",
    "bernoulli": "t.bernoulli(d.unit)",
    "multinomial": "t.multinomial(d.unit, max(1, d.n // 10), replacement=True)",
    "dropout": "F.dropout(d.x)",
    "gumbel_softmax": "F.gumbel_softmax(d.a)",
    # reductions
    **{
        name: f"t.{name}(d.a, 1)"
        for name in (
            *("sum", "mean", "var", "std", "var_mean", "std_mean", "prod", "amax", "amin"),
            *("argmax", "argmin", "nansum", "nanmean", "median", "nanmedian", "mode"),
        )
    },
    "max": "t.max(d.a, 1)",
    "min": "t.min(d.a, 1)",
    "any": "t.any(d.matrix_mask, 1)",
    "all": "t.all(d.matrix_mask, 1)",
    "count_nonzero": "t.count_nonzero(d.a, 1)",
    "norm": "t.norm(d.a, dim=1)",
    "quantile": "t.quantile(d.a, 0.3, 1)",
    "nanquantile": "t.nanquantile(d.a, 0.3, 1)",
    "aminmax": "t.aminmax(d.a, dim=1)",
    "cov": "t.cov(d.points.t())",
    "corrcoef": "t.corrcoef(d.points.t())",
    "trapezoid": "t.trapezoid(d.a)",
    "trapz": "t.trapz(d.a)",
    # scans
    "cumsum": "t.cumsum(d.a, 1)",
    "cumprod": "t.cumprod(d.a, 1)",
    "logcumsumexp": "t.logcumsumexp(d.a, 1)",
    "cummax": "t.cummax(d.a, 1)",
    "cummin": "t.cummin(d.a, 1)",
    "diff": "t.diff(d.x)",
    # shapes
    "contiguous": "d.a.t().contiguous()",
    "clone": "d.x.clone()",
    **{name: f"t.{name}([d.a, d.b, d.c])" for name in ("cat", "concat", "concatenate", "stack")},
    **{
        name: f"t.{name}([d.a, d.b, d.c])"
        for name in ("hstack", "vstack", "row_stack", "dstack", "column_stack")
    },
    **{f"atleast_{k}d": f"t.atleast_{k}d(d.x)" for k in (1, 2, 3)},
    "flip": "t.flip(d.a, [1])",
    "fliplr": "t.fliplr(d.a)",
    "flipud": "t.flipud(d.a)",
    "roll": "t.roll(d.a, 3, 1)",
    "rot90": "t.rot90(d.a)",
    "repeat": "d.a.repeat(2, 1)",
    "tile": "t.tile(d.a, (2, 1))",
    "repeat_interleave": "t.repeat_interleave(d.a, 2, 0)",
    "tril": "t.tril(d.a)",
    "triu": "t.triu(d.a)",
    "pad": "F.pad(d.a, (3, 3))",
    # sorting
    "sort": "t.sort(d.a, 1)",
    "argsort": "t.argsort(d.a, 1)",
    "topk": "t.topk(d.a, min(10, d.side), 1)",
    "kthvalue": "t.kthvalue(d.a, 2, 1)",
    "msort": "t.msort(d.a)",
    "unique": "t.unique(d.count)",
    "unique_consecutive": "t.unique_consecutive(d.few_counts)",
    # views
    "view": "d.a.view(-1)",
    "view_as": "d.a.view_as(d.b)",
    "reshape": "d.a.reshape(-1)",
    "reshape_as": "d.a.reshape_as(d.b)",
    "permute": "d.batch.permute(2, 0, 1)",
    "transpose": "d.a.transpose(0, 1)",
    "swapaxes": "d.a.swapaxes(0, 1)",
    "swapdims": "d.a.swapdims(0, 1)",
    "t": "d.a.t()",
    "numpy_T": "d.a.T",
    "matrix_T": "d.a.mT",
    "adjoint": "d.a.adjoint()",
    "squeeze": "d.row.unsqueeze(0).squeeze(0)",
    "unsqueeze": "d.x.unsqueeze(0)",
    "expand": "d.row.expand(3, d.side)",
    "broadcast_to": "t.broadcast_to(d.row, (3, d.side))",
    "expand_as": "d.row.expand_as(d.a)",
    "broadcast_tensors": "t.broadcast_tensors(d.row, d.a)",
    "flatten": "d.a.flatten()",
    "unflatten": "d.x.unflatten(0, (1, d.n))",
    "ravel": "d.a.ravel()",
    "select": "d.a.select(0, 1)",
    "slice": "d.a[1:2]",
    "narrow": "d.a.narrow(0, 0, 2)",
    "as_strided": "t.as_strided(d.x, (2, 2), (1, 1))",
    "movedim": "d.batch.movedim(0, 1)",
    "moveaxis": "d.batch.moveaxis(0, 1)",
    "diagonal": "d.a.diagonal()",
    "unfold": "d.x.unfold(0, 2, 2)",
    "split": "d.a.split(2)[0] if d.side < 32 else d.a.split(d.side // 4)[0]",
    "split_with_sizes": "d.a.split_with_sizes([1, d.side - 1])[0]",
    "chunk": "d.a.chunk(2)[0]",
    "tensor_split": "d.a.tensor_split(2)[0]",
    "unbind": "d.batch.unbind(0)[0]",
    "positive": "t.positive(d.x)",
    # in place, where no other call says what follows the first operand; `w` is a copy of it
    **{
        f"_init_{kind}_": f"t.nn.init.{kind}_(w)"
        for kind in (
            *("uniform", "normal", "trunc_normal", "eye", "xavier_uniform", "xavier_normal"),
            *("kaiming_uniform", "kaiming_normal"),
        )
    },
    "_init_constant_": "t.nn.init.constant_(w, 2.5)",
    "_init_orthogonal_": "t.nn.init.orthogonal_(w[:32, :32])",
    "_init_sparse_": "t.nn.init.sparse_(w[:64, :64], 0.5)",
    "_init_dirac_": "t.nn.init.dirac_(w.view(d.side, d.side, 1))",
    "uniform_": "w.uniform_()",
    "normal_": "w.normal_()",
    "exponential_": "w.exponential_()",
    "bernoulli_": "w.bernoulli_(0.3)",
    "random_": "w.random_(0, 100)",
    "copy_": "w.copy_(d.b)",
    "fill_": "w.fill_(2.5)",
    "zero_": "w.zero_()",
    "fill_diagonal_": "w.fill_diagonal_(2.5)",
    "cumsum_": "w.cumsum_(1)",
    "squeeze_": "w.unsqueeze(0).squeeze_()",
    "unsqueeze_": "w.view(-1).unsqueeze_(0)",
    "transpose_": "w.view(d.side, d.side).transpose_(0, 1)",
    "swapaxes_": "w.view(d.side, d.side).swapaxes_(0, 1)",
    "swapdims_": "w.view(d.side, d.side).swapdims_(0, 1)",
    "t_": "w.view(d.side, d.side).t_()",
}

_FUNCTION = re.compile(r"(?:f|(?:t|F)\.\w+)\((d\.\w+)(?:, (.*))?\)$")
_METHOD = re.compile(r"(d\.\w+)\.(\w+)\((.*)\)$")


def function(torch, name):
    """What `f` is in a call: an operation is a function, a method, or one of nn.functional."""
    places = (torch, torch.Tensor, torch.nn.functional)
    return next((getattr(p, name) for p in places if hasattr(p, name)), None)


def call_of(torch, name, parameters):
    """(expression, name of the operand that is written or None); None when there is no call.

    parameters: of the schema, in order, as (name, annotation, whether it has a default).
    """
    if name in LEFT_OUT:
        return None
    if name in CALLS:
        text = CALLS[name]
        return text, "d.a" if re.search(r"\bw\b", text) else None
    if name.endswith("_"):
        base = call_of(torch, name[:-1], parameters)
        match = base and (_FUNCTION.match(base[0]) or _METHOD.match(base[0]))
        if not match:
            return None
        if match.re is _FUNCTION:
            first, rest = match[1], match[2] or ""
        else:
            first, rest = match[1], match[3]
        return f"f(w{', ' + rest if rest else ''})", first
    required = [p for p in parameters if not p[2]]
    if not function(torch, name) or not required or any(p[1] != "Tensor" for p in required):
        return None
    return f"f({', '.join(['d.x', 'd.y', 'd.z'][: len(required)])})", None
