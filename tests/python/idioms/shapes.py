# Shapes: views, joins, splits, broadcasting.

# %% view and reshape
x = torch.arange(12)
a = x.view(3, 4)
b = x.view(-1, 6)
c = x.reshape(2, 2, -1)
d = a.view(-1)
e = x.view(size=(4, 3))
f = x.reshape((3, -1))
assert a.shape == (3, 4)

# %% size and dim
x = torch.zeros(2, 3, 4)
a = x.size()
b = x.size(0)
c = x.size(-1)
d = x.dim()
e = x.ndim
f = x.numel()
n = x.nelement()
batch, steps, width = x.shape
g = x.shape[1:]
h = list(x.shape)
i = x.shape == (2, 3, 4)

# %% flatten
x = torch.arange(24).view(2, 3, 4)
a = x.flatten()
b = x.flatten(1)
c = torch.flatten(x, start_dim=1)
d = x.flatten(0, 1)
e = x.view(x.size(0), -1)
f = x.ravel()
g = torch.tensor(5).flatten()

# %% unflatten
x = torch.arange(12).view(2, 6)
a = x.unflatten(1, (2, 3))
b = x.unflatten(-1, (-1, 3))

# %% squeeze and unsqueeze
x = torch.zeros(1, 3, 1)
a = x.squeeze().shape
b = x.squeeze(0).shape
c = x.squeeze(-1).shape
d = x.unsqueeze(0).shape
e = torch.zeros(3).unsqueeze(1).shape
f = x.squeeze(1).shape
g = torch.zeros(3)[:, None, None].shape

# %% transposes
x = torch.arange(6).view(2, 3)
a = x.t()
b = x.T
c = x.transpose(0, 1)
d = torch.arange(24).view(2, 3, 4).permute(2, 0, 1)
e = torch.arange(24).view(2, 3, 4).mT
f = torch.movedim(torch.zeros(2, 3, 4), 0, -1).shape
g = x.swapaxes(0, 1)
h = torch.arange(24).view(2, 3, 4).permute(dims=(0, 2, 1))

# %% images from HWC to CHW
img = torch.arange(24, dtype=torch.uint8).view(2, 4, 3)
chw = img.permute(2, 0, 1).float() / 255
batch = chw.unsqueeze(0)
back = (chw * 255).byte().permute(1, 2, 0)
assert torch.equal(back, img)

# %% contiguous
x = torch.arange(6).view(2, 3).t()
a = x.is_contiguous()
b = x.contiguous().is_contiguous()
c = x.contiguous().view(-1)
d = x.stride()
e = x.reshape(6)

# %% cat and stack
x, y = torch.zeros(2, 3), torch.ones(2, 3)
a = torch.cat([x, y])
b = torch.cat((x, y), dim=1)
c = torch.stack([x, y])
d = torch.stack([x, y], dim=-1)
e = torch.cat([x, torch.zeros(0, 3)])
f = torch.concat([x, y], dim=-1)
g = torch.hstack([torch.tensor([1]), torch.tensor([2, 3])])
h = torch.vstack([torch.arange(3), torch.arange(3)])
i = torch.column_stack([torch.arange(2), torch.arange(2)])

# %% cat of dtypes
a = torch.cat([torch.tensor([1]), torch.tensor([0.5])])
b = torch.stack([torch.tensor(1), torch.tensor(2)])

# %% collecting batches
outs = []
for i in range(3):
    outs.append(torch.full((2,), i))
all_ = torch.cat(outs)
rows = torch.stack(outs)

# %% split and chunk
x = torch.arange(10)
a = x.split(4)
b = x.split([2, 3, 5])
c = x.chunk(3)
d = torch.chunk(torch.arange(6).view(2, 3), 3, dim=1)
e = x.split(split_size=5)
f, g = torch.arange(4).view(2, 2).split(1, dim=-1)
h = torch.tensor_split(x, 3)
q, k, v = torch.arange(12).view(2, 6).chunk(3, dim=-1)

# %% expand and repeat
x = torch.tensor([[1], [2]])
a = x.expand(2, 3)
b = x.expand(-1, 2)
c = x.repeat(1, 3)
d = x.repeat(2, 1, 2)
e = torch.arange(3).expand(2, -1)
f = x.expand_as(torch.zeros(2, 4))
g = torch.tile(torch.tensor([1, 2]), (2,))
h = torch.broadcast_to(torch.arange(3), (2, 3))

# %% repeat_interleave
x = torch.tensor([1, 2, 3])
a = x.repeat_interleave(2)
b = torch.repeat_interleave(x, torch.tensor([1, 0, 2]))
c = torch.repeat_interleave(torch.arange(4).view(2, 2), 2, dim=0)
d = torch.repeat_interleave(torch.tensor([2, 1]))

# %% broadcasting
a = torch.arange(3).view(3, 1) + torch.arange(2)
b = torch.ones(2, 1, 3) * torch.arange(2).view(2, 1)
c = torch.zeros(3) + 1
d = torch.arange(4).unsqueeze(0) < torch.tensor([2, 4]).unsqueeze(1)
e = torch.broadcast_shapes((2, 1), (3,))
f = torch.broadcast_tensors(torch.arange(2).view(2, 1), torch.arange(3))

# %% masks of lengths
lengths = torch.tensor([1, 3, 2])
mask = torch.arange(lengths.max())[None, :] < lengths[:, None]
count = mask.sum(1)
padded = torch.arange(9).view(3, 3).masked_fill(~mask, 0)

# %% distances of all pairs
x = torch.tensor([[0.0, 0.0], [3.0, 4.0]])
diff = x[:, None, :] - x[None, :, :]
dist = diff.pow(2).sum(-1).sqrt()
also = torch.cdist(x, x)

# %% padding
x = torch.arange(4.0).view(2, 2)
a = F.pad(x, (1, 1))
b = F.pad(x, (0, 1, 1, 0), value=-1.0)
c = F.pad(torch.arange(3), (2, 0), "constant", 9)
d = F.pad(torch.arange(4.0).view(1, 1, 4), (1, 2), mode="reflect")
e = F.pad(torch.arange(4.0).view(1, 1, 4), (1, 1), mode="replicate")
f = F.pad(x, (-1, 0))

# %% flipping and turning
x = torch.arange(6).view(2, 3)
a = x.flip(0)
b = x.flip(-1)
c = torch.flip(x, dims=[0, 1])
d = torch.rot90(x)
e = x.fliplr()
f = x.flipud()

# %% interleaving two tensors
a, b = torch.tensor([1, 2, 3]), torch.tensor([10, 20, 30])
c = torch.stack((a, b), dim=1).flatten()
d = torch.stack((a, b), dim=1).view(-1)
even, odd = c[::2], c[1::2]

# %% rotating halves
x = torch.arange(8.0).view(1, 8)
x1, x2 = x.chunk(2, dim=-1)
y = torch.cat((-x2, x1), dim=-1)
p, q = x[..., ::2], x[..., 1::2]
z = torch.stack((-q, p), dim=-1).flatten(-2)

# %% patches of an image
img = torch.arange(16).view(1, 4, 4)
p = 2
patches = img.unfold(1, p, p).unfold(2, p, p).contiguous().view(-1, p * p)
also = img.reshape(1, 2, 2, 2, 2).permute(0, 1, 3, 2, 4).reshape(-1, 4)
assert torch.equal(patches, also)

# %% heads of attention
b, t, h, d = 2, 3, 2, 4
x = torch.arange(b * t * h * d).view(b, t, h * d)
heads = x.view(b, t, h, d).transpose(1, 2)
back = heads.transpose(1, 2).contiguous().view(b, t, h * d)
assert torch.equal(back, x)

# %% atleast
a = torch.atleast_1d(torch.tensor(3))
b = torch.atleast_2d(torch.arange(3))
c = torch.atleast_3d(torch.zeros(2, 2)).shape
d = torch.atleast_1d([torch.tensor(1), torch.tensor([2])])

# %% viewing another dtype
x = torch.tensor([1.0, 2.0])
a = x.view(torch.int32)
b = torch.tensor([1, 2], dtype=torch.int32).view(torch.uint8).shape
c = x.view_as(torch.zeros(2, 1))

# %% strides
x = torch.zeros(2, 3, 4)
a = x.stride()
b = x.transpose(0, 2).stride(0)
c = x[:, 1].storage_offset()
d = torch.arange(9).as_strided((2, 2), (3, 1))

# %% sizes of one
x = torch.zeros(5)
a = (x.view(1, -1) + x.view(-1, 1)).shape
b = x[None, :, None].expand(2, 5, 3).shape
c = torch.zeros(1, 5).squeeze(0).shape

# %% sum over leading dimensions
g = torch.arange(24.0).view(2, 3, 4)
bias_grad = g.sum(dim=(0, 1))
also = g.flatten(0, 1).sum(0)
to = g.sum_to_size(1, 4)
