# Single calls, many to a list.

# %% numbers, operators and Python's own functions, 1
r = [
    "%.3f" % torch.tensor(1.23456),
    "%d" % torch.tensor(3),
    "{:.2f}".format(torch.tensor(1.239).item()),
    round(torch.tensor(2.567).item(), 2),
    math.floor(torch.tensor(2.7)),
    math.ceil(torch.tensor(2.2)),
    math.exp(torch.tensor(1.0)),
    math.log(torch.tensor(2.0)),
    sum([torch.tensor(1.0), torch.tensor(2.0)]),
    max([torch.tensor(1.0), torch.tensor(3.0), torch.tensor(2.0)]),
    min(torch.tensor(1.0), torch.tensor(3.0)),
    sorted([torch.tensor(3), torch.tensor(1)]),
    max(torch.tensor([1, 5, 2])),
    list(range(torch.tensor(3))),
    [0] * torch.tensor(2),
    "a" * torch.tensor(2),
]

# %% numbers, operators and Python's own functions, 2
r = [
    [10, 20, 30][torch.tensor(1)],
    np.float32(torch.tensor(1.5)),
    np.array([torch.tensor(1.0), torch.tensor(2.0)]),
    np.array(torch.tensor([1.0, 2.0])).sum(),
    int(torch.tensor([3])),
    float(torch.tensor([[2.5]])),
    bool(torch.tensor(0.0)),
    complex(torch.tensor(2.0)),
    pow(torch.tensor([2.0]), 3),
    abs(torch.tensor([-1, 2])),
    2 ** torch.tensor([1.0, 2.0]),
    (-torch.tensor([1, 2])) // 2,
    ~torch.tensor([True, False]),
    1 / torch.tensor([2, 4]),
    isinstance(torch.zeros(1).cpu(), torch.FloatTensor),
    isinstance(torch.zeros(1).cpu().long(), torch.LongTensor),
]

# %% numbers, operators and Python's own functions, 3
r = [
    isinstance(torch.zeros(1), (torch.Tensor, np.ndarray)),
    (torch.tensor([1, 2]) == torch.tensor([1, 3])).float().mean(),
    bool(torch.tensor(3) > 2),
    len(torch.utils.data.DataLoader(torch.arange(5), 2)),
    [b for b in torch.utils.data.DataLoader(torch.arange(5), 2)],
    (torch.arange(4) > 1).nonzero().flatten().tolist(),
    (torch.arange(4) > 1).sum().item(),
    (torch.arange(4.0) / 2).round().int().tolist(),
]

# %% indexing and shapes, 1
r = [
    torch.tensor([1, 2, 3])[None, :, None].shape,
    torch.arange(24).view(2, 3, 4)[:, [0, 2], 1:3],
    torch.arange(24).view(2, 3, 4)[[0, 1], :, [1, 2]],
    torch.arange(24).view(2, 3, 4)[0, :, [1, 2]],
    torch.arange(24).view(2, 3, 4)[..., [0, 1]],
    torch.arange(24).view(2, 3, 4)[[True, False]],
    torch.arange(24).view(2, 3, 4)[:, torch.tensor([True, False, True]), 1],
    torch.arange(6).view(2, 3)[torch.tensor([[True, False, True], [False, False, True]])],
    torch.arange(6).view(2, 3)[:, -1:],
    torch.arange(6).view(2, 3)[1:, :-1],
    torch.arange(6)[-100:3],
    torch.arange(6)[4:2],
    torch.arange(6)[torch.tensor(2)],
    torch.arange(6)[torch.tensor([2])],
    torch.arange(6)[torch.tensor(2) : torch.tensor(5)],
    torch.arange(6)[np.int64(2)],
]

# %% indexing and shapes, 2
r = [
    torch.arange(6)[True].shape,
    torch.arange(6)[False].shape,
    torch.tensor(5)[None],
    torch.tensor(5)[...],
    torch.tensor(5)[()],
    torch.arange(4)[[]],
    torch.arange(6).view(2, 3)[[]].shape,
    torch.arange(6).view(2, 3)[(0, 1)],
    torch.arange(6).view(2, 3)[(slice(None), 1)],
    torch.arange(12).view(3, 4)[torch.tensor([[0, 1], [1, 2]])].shape,
    torch.arange(12).view(3, 4)[:, torch.tensor([[0, 1], [1, 2]])].shape,
    torch.zeros(2, 3).size()[1:],
    torch.zeros(2, 3).size() + (4,),
    torch.zeros(2, 3).size() == torch.Size([2, 3]),
    torch.zeros(2, 3).shape[::-1],
    tuple(torch.zeros(2, 3).shape),
]

# %% indexing and shapes, 3
r = [
    (2, 3) == torch.zeros(2, 3).shape,
    torch.zeros(2, 3).shape.numel(),
    torch.Size((2, 3)).count(2),
    hash(torch.Size([1])) == hash((1,)),
    torch.zeros(2, 3).shape[-1] * 2,
    str(torch.zeros(2, 3).shape[0]),
    [*torch.zeros(2, 3).shape, 5],
    torch.zeros(2).new_zeros(3, 4).shape,
    torch.tensor([3, 1, 2]).sort()[0],
    torch.tensor([3, 1, 2]).sort(dim=0, descending=True)[1],
    torch.ones(2, 3).permute(1, 0).contiguous().shape,
    torch.ones(2, 3, 4).permute(-1, 0, 1).shape,
    torch.ones(2, 3).unsqueeze(-1).expand(-1, -1, 4).shape,
    torch.arange(0, 1, 0.1).shape,
    torch.linspace(0, 10, steps=11)[3],
    torch.eye(3)[[0, 2]],
]

# %% indexing and shapes, 4
r = [
    torch.max(torch.tensor([[1, 2], [3, 0]]), 1)[1],
    torch.topk(torch.tensor([1.0, 5.0, 3.0]), k=2)[1],
    torch.normal(torch.zeros(3), torch.ones(3)).shape,
    torch.rand(2, 3, device="cpu").shape,
    torch.empty(3).exponential_().shape,
    torch.tensor([1.0]).element_size(),
    torch.tensor((1, (2, 3))[1]),
    torch.tensor([[], []]).shape,
    torch.ones(2).view(torch.Size([2, 1])),
    torch.ones(4).reshape(*[2, 2]),
    torch.zeros(3, 4).T.shape,
    torch.zeros(2, 3, 4).mT.shape,
    torch.zeros(2, 3, 4).transpose(1, 2).contiguous().view(2, -1).shape,
    torch.tensor([1, 2, 3])[torch.tensor([True, False, True])] * 2,
    torch.tensor([[1, 2], [3, 4]])[:, None].shape,
]

# %% functions of torch, 1
r = [
    torch.tensor([1, 2]) ** torch.tensor([2, 3]),
    torch.tensor([4, 9]) ** 0.5,
    torch.tensor([4, 9]) ** -1.0,
    torch.tensor([True, False]) + torch.tensor([True, True]),
    torch.tensor([True, False]) * 3,
    torch.tensor([True]) & True,
    torch.tensor([1.5]) // 1,
    torch.tensor([-7.5]) % 2,
    torch.tensor(5) / torch.tensor(2),
    torch.tensor(5) // torch.tensor(2),
    torch.is_tensor([1]),
    torch.numel(torch.zeros(2, 3)),
    torch.stack((torch.ones(2), torch.zeros(2)), 1),
    torch.cat((torch.ones(2), torch.zeros(2)), -1),
    torch.cat([torch.ones(1, 2), torch.ones(2, 2, dtype=torch.int64)], 0),
    torch.split(torch.arange(5), 2),
]

# %% functions of torch, 2
r = [
    torch.chunk(torch.arange(5), 2, 0),
    torch.unbind(torch.arange(4).view(2, 2), -1),
    torch.nonzero(torch.tensor([0, 1, 1])).squeeze(),
    torch.nonzero(torch.tensor([0, 1, 1])).squeeze(1).tolist(),
    torch.where(torch.tensor([True, False]), 1.0, 0.0),
    torch.where(torch.tensor([True, False]), torch.tensor([1, 2]), torch.tensor([3.0, 4.0])),
    torch.where(torch.tensor([True, False]), torch.tensor(1), 2.5),
    torch.full((2,), 1).dtype,
    torch.full((2,), True).dtype,
    torch.full_like(torch.zeros(2), 3),
    torch.arange(1, 2, 0.3),
    torch.arange(3, -1, -1),
    torch.arange(torch.tensor(3)),
    torch.linspace(0, 1, 3, dtype=torch.float64),
    torch.clamp(torch.arange(5), 1, 3),
    torch.clamp(torch.arange(5), min=1.5),
]

# %% functions of torch, 3
r = [
    torch.clamp(torch.tensor([1.0, float("nan")]), 0, 1),
    torch.min(torch.tensor([1, 2]), torch.tensor([0, 3])),
    torch.argmax(torch.tensor([1, 3, 3])),
    torch.argmax(torch.tensor([[1, 3], [4, 2]]), dim=1, keepdim=True),
    torch.argsort(torch.tensor([3, 1, 2]), descending=True),
    torch.topk(torch.tensor([[1.0, 5.0, 3.0]]), 1, dim=-1).values,
    torch.isin(torch.tensor([1, 2, 3]), torch.tensor([2])),
    torch.eq(torch.tensor([1, 2]), 2).all(),
    torch.equal(torch.tensor([1]), torch.tensor([1.0])),
    torch.allclose(torch.tensor([1.0]), torch.tensor([1.0 + 1e-6])),
    torch.tensor(3) > 2,
    torch.sigmoid(torch.tensor(0.0)),
    torch.tanh(torch.tensor([1])).dtype,
    torch.exp(torch.tensor([1, 2])),
    torch.sqrt(torch.tensor(4)),
    torch.log(torch.tensor([0.0, -1.0])),
]

# %% functions of torch, 4
r = [
    torch.pow(torch.tensor([1, 2]), 2),
    torch.pow(2, torch.tensor([1, 2])),
    torch.sign(torch.tensor([-2, 0, 3])),
    torch.floor(torch.tensor([1, 2])).dtype,
    torch.round(torch.tensor([0.5, 1.5, 2.5])),
    torch.fmod(torch.tensor([-3.0, 3.0]), 2),
    torch.remainder(torch.tensor([-3.0, 3.0]), 2),
    torch.trunc(torch.tensor([-1.7, 1.7])),
    torch.atan2(torch.tensor(1.0), torch.tensor(1.0)),
    torch.square(torch.tensor([2, 3])),
    torch.rsqrt(torch.tensor([4.0])),
    torch.erf(torch.tensor([0.5])),
    torch.lerp(torch.tensor(0.0), torch.tensor(10.0), 0.3),
    torch.cumprod(torch.tensor([1, 2, 3]), 0),
    torch.logcumsumexp(torch.tensor([0.0, 0.0]), 0),
    torch.diff(torch.tensor([1, 4, 9])),
]

# %% functions of torch, 5
r = [
    torch.trapezoid(torch.tensor([1.0, 2.0, 3.0])),
    torch.trapz(torch.tensor([1.0, 2.0, 3.0])),
    torch.outer(torch.arange(2), torch.arange(3)),
    torch.ger(torch.ones(2), torch.ones(2)),
    torch.cross(torch.tensor([1.0, 0, 0]), torch.tensor([0, 1.0, 0]), dim=0),
    torch.cov(torch.tensor([[1.0, 2.0], [3.0, 5.0]])),
    torch.histc(torch.tensor([1.0, 2, 1]), 3),
    torch.bincount(torch.tensor([1, 1, 3])),
    torch.unique(torch.tensor([[1, 2], [2, 3]])),
    torch.flip(torch.arange(3), (0,)),
    torch.roll(torch.arange(6).view(2, 3), 1, 1),
    torch.roll(torch.arange(6).view(2, 3), (1, 1), (0, 1)),
    torch.rot90(torch.arange(4).view(2, 2), 1, [0, 1]),
    torch.diag(torch.ones(2, 2)),
    torch.tril_indices(2, 2),
    torch.take(torch.arange(4).view(2, 2), torch.tensor([3])),
]

# %% functions of torch, 6
r = [
    torch.gather(torch.arange(4).view(2, 2), 0, torch.tensor([[1, 0]])),
    torch.index_select(torch.arange(4).view(2, 2), 0, torch.tensor([1])),
    torch.masked_select(torch.arange(4), torch.tensor([True, False, True, False])),
    torch.scatter(torch.zeros(3), 0, torch.tensor([1]), torch.tensor([5.0])),
    torch.bernoulli(torch.tensor([0.0, 1.0])),
    torch.randperm(4).sum(),
    torch.utils.data.default_collate([1.5, 2.5]),
    torch.utils.data.default_collate([torch.tensor(1), torch.tensor(2)]),
    torch.get_default_dtype(),
    torch.float32.is_floating_point,
    torch.finfo(torch.float32).tiny,
    torch.finfo(torch.bfloat16).bits,
    torch.iinfo(torch.uint8).max,
    torch.tensor([1.0]).T,
    torch.ldexp(torch.tensor([1.0]), torch.tensor([2])),
    torch.as_strided(torch.arange(4), (2,), (2,)),
]

# %% functions of torch, 7
r = [
    torch.from_numpy(np.arange(3)).dtype,
    torch.tensor([np.array([1, 2]), np.array([3, 4])]),
    torch.tensor(1e10),
    torch.tensor(2**40),
    torch.tensor([True, 2]),
    torch.tensor([1.0, True]),
    torch.tensor([1, 2], dtype=torch.int16) + torch.tensor([1, 2], dtype=torch.int32),
    torch.tensor([200], dtype=torch.uint8) + 100,
    torch.tensor([1.0], dtype=torch.float16) + torch.tensor(1.0, dtype=torch.float64),
    torch.autograd.grad(
        (torch.ones(1, requires_grad=True) * 2).sum(),
        [torch.ones(1, requires_grad=True)],
        allow_unused=True,
    ),
    torch.is_grad_enabled(),
    torch.get_rng_state().dtype,
    torch.Tensor.__name__,
    torch.zeros(2, 2, out=None),
    torch.eye(n=2, m=3),
]

# %% functions of torch, 8
r = [
    torch.split(torch.arange(4), split_size_or_sections=[1, 3], dim=0),
    torch.sort(torch.tensor([2, 1]), stable=True),
    torch.einsum("ij->i", torch.ones(2, 2)),
    torch.meshgrid(torch.arange(2), torch.arange(2), indexing="xy"),
    torch.arange(3) @ torch.arange(3),
    torch.eye(2) @ torch.ones(2),
    torch.ones(2, 1) @ torch.ones(1, 2),
    torch.ones(3) * torch.ones(2, 1),
    torch.stack([torch.tensor([1, 2]), torch.tensor([3, 4])]).t().tolist(),
    torch.tensor(float("inf")) > 1e30,
    torch.pi,
    torch.e,
    torch.nan != torch.nan,
    torch.inf,
    torch.contiguous_format,
    torch.channels_last,
]

# %% functions of torch, 9
r = [
    torch.float,
    torch.uint16,
    torch.long,
    torch.float8_e4m3fn,
]

# %% methods of tensors, 1
r = [
    torch.tensor(3).__index__(),
    torch.tensor([1, 2, 3]).tolist() == [1, 2, 3],
    torch.tensor([1.0, 2.0]).__len__(),
    torch.zeros(3).type("torch.DoubleTensor").dtype,
    torch.zeros(3).type(torch.LongTensor).dtype,
    torch.zeros(3).type(torch.float64).dtype,
    torch.tensor([[3, 1], [2, 5]]).max(0),
    torch.tensor([[3, 1], [2, 5]]).max(dim=1, keepdim=True),
    torch.tensor([[3, 1], [2, 5]]).min(1).values,
    torch.tensor([[3.0, 1], [2, 5]]).mean(dim=[0, 1]),
    torch.tensor([[3.0, 1], [2, 5]]).norm(dim=1, p=2),
    torch.tensor([[3.0, 1], [2, 5]]).sum(0).sum().item(),
    torch.tensor([1.0, float("nan")]).nanmean(),
    torch.tensor([1.0, 2.0]).dot(torch.tensor([3.0, 4.0])),
    torch.tensor([1, 2]).dot(torch.tensor([3, 4])),
    torch.ones(2, 3).addmm(torch.ones(2, 2), torch.ones(2, 3)),
]

# %% methods of tensors, 2
r = [
    torch.ones(3).expand(2, 3).contiguous().stride(),
    torch.ones(2, 3).transpose(-1, -2).is_contiguous(),
    torch.ones(2, 1).expand(2, 5).sum(),
    torch.arange(3).tile(2),
    torch.arange(3).repeat(2, 2),
    torch.arange(3).repeat((2, 1)),
    torch.ones(2, 2).tril().sum(),
    torch.eye(3).nonzero(),
    torch.empty(2, 0).sum(),
    torch.zeros(0).mean(),
    torch.zeros(0).std(),
    torch.ones(1).std(),
    torch.ones(3).var(dim=0),
    torch.tensor([1, 2, 3, 4]).float().std(),
    torch.tensor([1.0, 2, 3]).cumsum(0).flip(0),
    torch.tensor([1, 2]).eq(torch.tensor([1, 3])).sum().item(),
]

# %% methods of tensors, 3 [host]
r = [
    torch.tensor([0.1, 0.2]).gt(0.15).int(),
    torch.zeros(3).scatter(0, torch.tensor([1, 2]), 1.0),
    torch.zeros(2, 3).scatter_(1, torch.tensor([[0], [2]]), 1),
    torch.zeros(3).index_fill(0, torch.tensor([0, 2]), 9),
    torch.empty(3).random_(0, 10).dtype,
    torch.empty(2).bernoulli_(1.0),
    torch.tensor(1.0).dtype.itemsize,
    torch.tensor([1.0, 2.0]).nbytes,
    torch.tensor([1.0]).is_cuda,
    torch.tensor([1.0]).is_sparse,
    torch.tensor([1.0]).requires_grad,
    torch.tensor([1.0]).is_leaf,
    torch.tensor([1.0]).ndim,
    torch.tensor([1.0]).detach().requires_grad_().requires_grad,
    torch.tensor([1.0]).clone(memory_format=torch.contiguous_format),
    torch.tensor([1.0]).contiguous(memory_format=torch.contiguous_format),
]

# %% methods of tensors, 4
r = [
    torch.tensor([1.0]).to(torch.float64, copy=True),
    torch.tensor([1.0]).to("cpu", non_blocking=True),
    torch.tensor([1.0]).to(torch.tensor([1])),
    torch.tensor([1.0]).apply_(lambda v: v + 1),
    torch.ones(2, 2).fill_(torch.tensor(3.0)),
    torch.tensor([1.0, 2.0]).index_add(0, torch.tensor([0]), torch.tensor([5.0]), alpha=2),
    torch.tensor([1.0, 2.0]).put_(torch.tensor([1]), torch.tensor([9.0])),
    torch.zeros(2, 2).index_put((torch.tensor([0]), torch.tensor([1])), torch.tensor(5.0)),
    torch.tensor([1.0, 2.0]).addcmul(torch.tensor([1.0, 1.0]), torch.tensor([2.0, 2.0]), value=0.5),
    torch.tensor([1, 2]).bitwise_not(),
    torch.tensor([1.0, 2.0]).heaviside(torch.tensor(0.5)),
    torch.tensor([1.5, 2.5]).frac(),
    torch.tensor([1, 2]).__rpow__(2),
    torch.tensor([1.0]).__array__(),
    torch.tensor(np.arange(3.0)).dtype,
    torch.tensor([np.float32(1), np.float32(2)]).dtype,
]

# %% methods of tensors, 5
r = [
    torch.tensor([[1, 2], [3, 4]]).numpy().T,
    torch.ones(2).sum(dim=None),
    torch.ones(2, 2).sum(dim=()),
    torch.ones(2).mean(axis=0),
    torch.ones(2, 2).argmax(axis=1),
    torch.ones(2, 3).size(dim=1),
    torch.ones(2, 3).stride(dim=0),
    torch.ones(2).to(device="cpu", dtype=torch.int64),
    torch.ones(2).view((2, 1)),
    torch.ones(2).view([2, 1]),
    torch.ones(4).view(2, torch.tensor(2)),
    torch.ones(2, 3).permute([1, 0]),
    torch.ones(2).expand([3, 2]),
    torch.ones(2).repeat([2]),
    torch.ones(2, 3).flip([0, 1]),
    torch.ones(2, 3).flip(0, 1),
]

# %% methods of tensors, 6
r = [
    torch.ones(1, 2).squeeze((0,)),
    torch.ones(2).unsqueeze(dim=-1),
    torch.ones(4).split((1, 3)),
    torch.ones(2).equal(torch.ones(2)),
    torch.ones(2).new_full((1,), 3.0),
    torch.ones(2).fill_(value=3),
    torch.ones(2).clamp(max=0.5),
    torch.ones(2).index_fill_(dim=0, index=torch.tensor([0]), value=2),
    torch.ones(2).scatter_(dim=0, index=torch.tensor([0]), value=2),
    torch.ones(2).type(dtype=torch.int64),
    torch.ones(2, requires_grad=True).detach().clone().numpy(),
    torch.ones(2).tolist(),
    torch.ones(()).item(),
    torch.tensor([1.0, 2.0]).softmax(0).sum() == 1,
    torch.tensor([1.0]).expand(3).clone(),
    torch.randn(3).sort().values.diff().ge(0).all(),
]

# %% methods of tensors, 7
r = [
    torch.zeros(3).bool().any().item(),
    torch.zeros(3).add_(1).sum().item(),
    torch.zeros(2, 2).fill_diagonal_(1).trace(),
    torch.arange(3).float().requires_grad_(True),
    torch.tensor([1.0]).lt(torch.inf),
]

# %% nn.functional, 1
r = [
    F.softmax(torch.tensor([1, 2]).float(), 0),
    F.one_hot(torch.tensor([0, 1]), 3).dtype,
    F.dropout(torch.ones(3), 0.0),
    F.dropout(torch.ones(3), training=False),
    F.normalize(torch.tensor([[3.0, 4.0]])),
    F.normalize(torch.tensor([[3.0, 4.0]]), p=1, dim=-1),
    F.linear(torch.ones(2), torch.ones(3, 2)),
    F.pad(torch.ones(1, 2), (1, 0, 0, 1), mode="constant", value=0),
    F.layer_norm(torch.tensor([1.0, 2.0]), [2]),
    F.cosine_similarity(torch.ones(2, 3), torch.ones(2, 3), dim=1),
    F.glu(torch.ones(4)),
    F.threshold(torch.tensor([0.5, 2.0]), 1.0, 0.0),
    F.celu(torch.tensor([-1.0, 1.0])),
    F.hardshrink(torch.tensor([-1.0, 0.2])),
    F.softshrink(torch.tensor([-1.0, 0.2])),
    F.log_softmax(torch.tensor([[1.0, 2.0]]), dim=1).exp().sum(),
]

# %% nn.functional, 2
r = [
    F.embedding(torch.tensor([1]), torch.eye(3)),
    F.mse_loss(torch.ones(2), torch.zeros(2), reduction="none"),
    F.nll_loss(torch.tensor([[-0.1, -2.0]]), torch.tensor([0])),
    F.cross_entropy(torch.tensor([[1.0, 2.0]]), torch.tensor([1]), reduction="sum"),
    F.binary_cross_entropy(torch.tensor([0.5]), torch.tensor([1.0])),
    F.l1_loss(torch.ones(2), torch.zeros(2)),
    nn.functional.gelu(torch.tensor([1.0])),
    nn.functional.softmax(torch.ones(2), dim=0, dtype=torch.float64),
    F.softplus(torch.tensor([1.0]), beta=2, threshold=20),
    F.huber_loss(torch.ones(1), torch.zeros(1), reduction="mean", delta=1.0),
    F.kl_div(torch.tensor([[-1.0]]), torch.tensor([[0.5]]), size_average=False),
    F.mse_loss(torch.ones(2), torch.zeros(2), size_average=False),
]

# %% layers and containers, 1
r = [
    torch.nn.functional.relu(torch.tensor([-1.0, 1.0]), inplace=True),
    nn.Linear(2, 3).weight.shape,
    nn.Linear(2, 3).weight.T.shape,
    nn.Linear(2, 3, dtype=torch.float64).weight.dtype,
    nn.Linear(2, 3, device="cpu").bias.shape,
    list(nn.Linear(2, 3).named_parameters())[0][0],
    [n for n, p in nn.Sequential(nn.Linear(1, 1), nn.ReLU()).named_parameters(prefix="m")],
    len(list(nn.Sequential(nn.Linear(1, 1)).parameters(recurse=False))),
    list(nn.Linear(1, 1).state_dict(prefix="x.")),
    type(nn.Linear(1, 1).state_dict(keep_vars=True)["weight"]).__name__,
    nn.Linear(1, 1).state_dict()["weight"].requires_grad,
    nn.Sequential(nn.Linear(1, 2), nn.Linear(2, 3))[0].out_features,
    (nn.Sequential(nn.ReLU()) + nn.Sequential(nn.Tanh())),
    nn.Sequential(nn.ReLU()).extend([nn.Tanh()]),
    nn.Sequential(nn.ReLU()).insert(0, nn.Tanh()),
    nn.Sequential(nn.ReLU(), nn.Tanh()).pop(0),
]

# %% layers and containers, 2
r = [
    nn.ModuleList([nn.ReLU()]) + nn.ModuleList([nn.Tanh()]),
    nn.ModuleList([nn.ReLU(), nn.Tanh()])[::-1],
    nn.ModuleList([nn.ReLU()]).append(nn.Tanh()),
    nn.ModuleDict({"a": nn.ReLU()}).pop("a"),
    list(nn.ModuleDict({"a": nn.ReLU(), "b": nn.Tanh()}).items()),
    nn.ModuleDict([("x", nn.ReLU())]),
    nn.ParameterList([torch.ones(1), torch.ones(2)]),
    len(nn.ParameterList([nn.Parameter(torch.ones(1))])),
    nn.Parameter(torch.tensor([1.0])).data,
    nn.Parameter(torch.ones(1)) * 2,
    nn.Parameter(torch.ones(2)).requires_grad_(False),
    isinstance(nn.Parameter(torch.ones(1)), torch.nn.parameter.Parameter),
    isinstance(nn.Parameter(torch.ones(1)).detach(), nn.Parameter),
    nn.Identity(54, unused=1)(torch.ones(1)),
    nn.Bilinear(1, 2, 3),
    nn.CosineSimilarity(dim=1)(torch.ones(1, 2), torch.ones(1, 2)),
]

# %% layers and containers, 3
r = [
    nn.PairwiseDistance()(torch.zeros(1, 2), torch.ones(1, 2)),
    nn.Dropout(p=0.3).p,
    nn.Dropout2d(0.1),
    nn.ZeroPad2d(1)(torch.ones(1, 1, 1, 1)).shape,
    nn.ConstantPad1d((1, 2), 3.5)(torch.ones(1, 1, 2)),
    nn.ReflectionPad1d(1)(torch.arange(3.0).view(1, 1, 3)),
    nn.GLU(),
    nn.Hardswish(),
    nn.Threshold(0.1, 20),
    nn.Softmin(dim=0),
    nn.KLDivLoss(reduction="batchmean"),
    nn.SmoothL1Loss(beta=0.5),
    nn.HuberLoss(),
    nn.NLLLoss(ignore_index=0),
    nn.MultiMarginLoss(),
    nn.LayerNorm(4, elementwise_affine=False),
]

# %% layers and containers, 4
r = [
    nn.LayerNorm(4, bias=False),
    nn.init.zeros_(torch.empty(2)),
    nn.init.orthogonal_(torch.empty(2, 2)).shape,
    nn.init.normal_(torch.empty(3), std=0.0),
    nn.init.kaiming_normal_(torch.empty(3, 2)).shape,
    nn.init.dirac_(torch.empty(1, 1, 3)),
    nn.init.sparse_(torch.empty(4, 2), sparsity=0.5).shape,
    nn.utils.clip_grad_norm_([], 1.0),
    torch.nn.utils.parameters_to_vector(nn.Linear(1, 1).parameters()).shape,
    torch.optim.SGD(nn.Linear(1, 1).parameters(), 0.1).param_groups[0]["lr"],
    torch.optim.Adam(nn.Linear(1, 1).parameters()).defaults["betas"],
    sorted(torch.optim.AdamW(nn.Linear(1, 1).parameters()).param_groups[0]),
    torch.optim.SGD([{"params": nn.Linear(1, 1).parameters()}], lr=0.1).state,
    torch.optim.lr_scheduler.StepLR(
        torch.optim.SGD(nn.Linear(1, 1).parameters(), 0.1), 1
    ).get_last_lr(),
    torch.nn.functional.__name__.split(".")[-1],
    torch.nn.Module.__name__,
]

# %% layers and containers, 5
r = [
    torch.optim.Optimizer.__name__,
    [m for m in nn.Sequential(nn.Linear(1, 1), nn.ReLU()).children()],
    nn.Sequential(nn.Linear(1, 1)).named_children().__class__.__name__,
    dict(nn.Linear(2, 2).named_parameters()).keys(),
    nn.Linear(2, 2).training,
    nn.Linear(2, 2).eval().training,
    nn.Linear(2, 2).requires_grad_(False).weight.requires_grad,
    nn.Linear(2, 2).half().weight.dtype,
    nn.Linear(2, 2).to(torch.bfloat16).bias.dtype,
    nn.Linear(2, 2).type(torch.float64).bias.dtype,
    nn.Linear(2, 2)._get_name(),
    nn.Linear(2, 2).extra_repr(),
    nn.Linear(2, 2).get_parameter("weight").shape,
    list(nn.LayerNorm(2).buffers()),
    nn.Linear(2, 2).apply(lambda m: None).__class__.__name__,
    nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)).load_state_dict(
        nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)).state_dict()
    ),
]

# %% layers and containers, 6
r = [
    nn.Linear(2, 2).load_state_dict({}, strict=False),
    nn.Module().state_dict(),
    list(nn.Module().parameters()),
    nn.Sequential()(torch.ones(1)),
    nn.Sequential(*[]),
    nn.ModuleList(),
    nn.ModuleDict(),
    nn.ParameterList(),
    nn.Sequential(nn.Linear(1, 2), nn.Sequential(nn.Linear(2, 3))),
    nn.Embedding(3, 2, max_norm=None),
    nn.Embedding(3, 2).num_embeddings,
    nn.MultiheadAttention(4, 2).in_proj_weight.shape,
    nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8), 2).layers[0].linear1,
    nn.CrossEntropyLoss(weight=torch.ones(2)).weight,
    nn.CrossEntropyLoss(reduction="none").reduction,
    nn.BCEWithLogitsLoss(pos_weight=torch.tensor(2.0)),
]

# %% layers and containers, 7
r = [
    nn.Softmax(dim=1)(torch.ones(1, 2)),
    nn.LogSoftmax(dim=1)(torch.ones(1, 2)),
    nn.ReLU6()(torch.tensor([7.0])),
    nn.Tanh()(torch.tensor([0.0])),
    nn.LeakyReLU()(torch.tensor([-1.0])),
]

# %% keywords, 1
r = [
    torch.normal(0.0, 1.0, size=(2, 2)).shape,
    torch.randint(0, 2, size=(3,)).dtype,
    torch.randint(high=5, size=(2,)).shape,
    next(iter(torch.utils.data.DataLoader([(1, "a"), (2, "b")], batch_size=2))),
    F.cross_entropy(input=torch.ones(1, 2), target=torch.tensor([0])),
    F.mse_loss(input=torch.ones(1), target=torch.zeros(1), reduction="sum"),
    F.linear(input=torch.ones(1, 2), weight=torch.ones(3, 2), bias=None),
    F.dropout(input=torch.ones(2), p=0.5, training=False, inplace=False),
    F.layer_norm(torch.ones(1, 2), normalized_shape=(2,), weight=None, bias=None, eps=1e-5),
    F.pad(input=torch.ones(1, 2), pad=(1, 1), mode="constant", value=0),
    F.embedding(input=torch.tensor([0]), weight=torch.ones(2, 2), padding_idx=0),
    F.normalize(input=torch.ones(1, 2), p=2, dim=1, eps=1e-12),
    F.cosine_similarity(x1=torch.ones(1, 2), x2=torch.ones(1, 2), dim=-1),
    F.scaled_dot_product_attention(
        query=torch.ones(1, 2, 2),
        key=torch.ones(1, 2, 2),
        value=torch.ones(1, 2, 2),
        attn_mask=None,
        dropout_p=0.0,
        is_causal=False,
    ),
    torch.sum(input=torch.ones(2, 2), dim=0, keepdim=True, dtype=torch.float64),
    torch.cat(tensors=[torch.ones(1), torch.ones(1)], dim=0),
]

# %% keywords, 2
r = [
    torch.stack(tensors=(torch.ones(1), torch.ones(1)), dim=0),
    torch.zeros(size=(2, 2)),
    torch.ones(size=[2]),
    torch.arange(start=0, end=4, step=2),
    torch.arange(end=3),
    torch.linspace(start=0, end=1, steps=2),
    torch.full(size=(2,), fill_value=1.0),
    torch.randn(size=(2,)).shape,
    torch.rand(size=(2,)).shape,
    torch.tensor(data=[1, 2]),
    torch.transpose(input=torch.ones(1, 2), dim0=0, dim1=1),
    torch.permute(input=torch.ones(1, 2), dims=(1, 0)),
    torch.reshape(input=torch.ones(2), shape=(1, 2)),
    torch.squeeze(input=torch.ones(1, 2), dim=0),
    torch.unsqueeze(input=torch.ones(2), dim=0),
    torch.flatten(input=torch.ones(1, 2), start_dim=0, end_dim=-1),
]

# %% keywords, 3
r = [
    torch.chunk(input=torch.arange(4), chunks=2, dim=0),
    torch.where(condition=torch.tensor([True]), input=torch.ones(1), other=torch.zeros(1)),
    torch.clamp(input=torch.ones(1), min=0, max=0.5),
    torch.max(input=torch.ones(1, 2), dim=1),
    torch.argmax(input=torch.ones(1, 2), dim=1),
    torch.topk(input=torch.arange(3), k=1, dim=0, largest=True, sorted=True),
    torch.sort(input=torch.arange(3), dim=0, descending=True),
    torch.gather(input=torch.ones(1, 2), dim=1, index=torch.tensor([[0]])),
    torch.index_select(input=torch.ones(2), dim=0, index=torch.tensor([0])),
    torch.masked_select(input=torch.ones(2), mask=torch.tensor([True, False])),
    torch.matmul(input=torch.ones(2, 2), other=torch.ones(2, 2)),
    torch.mm(input=torch.ones(1, 2), mat2=torch.ones(2, 1)),
    torch.bmm(input=torch.ones(1, 1, 2), mat2=torch.ones(1, 2, 1)),
    torch.add(input=torch.ones(1), other=1, alpha=2),
    torch.mul(input=torch.ones(1), other=2),
    torch.pow(input=torch.ones(1), exponent=2),
]

# %% keywords, 4
r = [
    torch.norm(input=torch.ones(2), p=2),
    torch.mean(input=torch.ones(2), dim=0),
    torch.std(input=torch.ones(2), dim=0, unbiased=True),
    torch.var(input=torch.tensor([1.0, 2.0]), dim=0, correction=0),
    torch.allclose(input=torch.ones(1), other=torch.ones(1), rtol=1e-5, atol=1e-8),
    torch.unique(input=torch.ones(2), sorted=True, return_counts=True),
    torch.tensordot(torch.ones(2, 2), torch.ones(2, 2), dims=1),
    torch.multinomial(input=torch.tensor([1.0, 0.0]), num_samples=1),
    torch.cumsum(input=torch.ones(2), dim=0),
    torch.flip(input=torch.arange(2), dims=(0,)),
    torch.roll(input=torch.arange(2), shifts=1, dims=0),
    torch.repeat_interleave(input=torch.arange(2), repeats=2, dim=0),
    torch.tril(input=torch.ones(2, 2), diagonal=-1),
    torch.diag(input=torch.ones(2), diagonal=0),
    torch.ones(2).add(other=1),
    torch.ones(2).masked_fill(mask=torch.tensor([True, False]), value=0),
]

# %% keywords, 5
r = [
    torch.ones(2).scatter_add_(dim=0, index=torch.tensor([0]), src=torch.ones(1)),
]
