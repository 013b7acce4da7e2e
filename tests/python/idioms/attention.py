# Sequences, masks, attention.

# %% attention by hand
q = torch.arange(12.0).view(1, 3, 4) / 10
k, v = q + 0.1, q * 2
scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
weights = scores.softmax(dim=-1)
out = weights @ v
also = F.scaled_dot_product_attention(q, k, v)
assert torch.allclose(out, also, atol=1e-5)

# %% causal masks
T = 4
mask = torch.tril(torch.ones(T, T))
bias = torch.zeros(T, T).masked_fill(mask == 0, float("-inf"))
up = torch.triu(torch.full((T, T), float("-inf")), diagonal=1)
w = F.softmax(torch.ones(T, T) + bias, dim=-1)
b = torch.tril(torch.ones(T, T, dtype=torch.bool)).view(1, 1, T, T)
same = torch.equal(bias, up)

# %% attention with a causal mask
x = torch.linspace(0, 1, 24).view(1, 2, 3, 4)
a = F.scaled_dot_product_attention(x, x, x, is_causal=True)
b = F.scaled_dot_product_attention(x, x, x, attn_mask=torch.ones(3, 3, dtype=torch.bool).tril())
att = (x @ x.transpose(-2, -1)) * (1.0 / math.sqrt(x.size(-1)))
att = att.masked_fill(torch.tril(torch.ones(3, 3)) == 0, float("-inf"))
c = F.softmax(att, dim=-1) @ x

# %% masks of padding
ids = torch.tensor([[5, 3, 0, 0], [2, 4, 6, 0]])
pad = ids == 0
mask = (ids != 0).unsqueeze(1).unsqueeze(2)
bias = (1.0 - mask.float()) * -10000.0
lengths = (~pad).sum(dim=1)


# %% self attention of ones own
class SelfAttention(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.qkv = nn.Linear(d, 3 * d)
        self.proj = nn.Linear(d, d)
        self.register_buffer("mask", torch.tril(torch.ones(8, 8)).view(1, 1, 8, 8))

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.qkv(x).split(C, dim=2)
        q, k, v = (t.view(B, T, self.h, C // self.h).transpose(1, 2) for t in (q, k, v))
        att = (q @ k.transpose(-2, -1)) / math.sqrt(k.size(-1))
        att = att.masked_fill(self.mask[:, :, :T, :T] == 0, float("-inf"))
        y = F.softmax(att, dim=-1) @ v
        return self.proj(y.transpose(1, 2).contiguous().view(B, T, C))


m = SelfAttention(4, 2)
for _p in m.parameters():
    nn.init.constant_(_p, 0.1)
y = m(torch.arange(12.0).view(1, 3, 4)).detach()

# %% sinusoidal positions
d, n = 6, 5
pos = torch.arange(n, dtype=torch.float).unsqueeze(1)
div = torch.exp(torch.arange(0, d, 2).float() * (-math.log(10000.0) / d))
pe = torch.zeros(n, d)
pe[:, 0::2] = torch.sin(pos * div)
pe[:, 1::2] = torch.cos(pos * div)


# %% rotary positions
def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


inv = 1.0 / (10000 ** (torch.arange(0, 4, 2).float() / 4))
freqs = torch.outer(torch.arange(3).float(), inv)
emb = torch.cat((freqs, freqs), dim=-1)
x = torch.arange(12.0).view(3, 4)
y = x * emb.cos() + rotate_half(x) * emb.sin()

# %% relative positions
i = torch.arange(4)
rel = i[None, :] - i[:, None]
clipped = rel.clamp(-2, 2) + 2
bias = torch.arange(5.0)[clipped]
alibi = -(i.view(-1, 1) - i.view(1, -1)).abs().float() * 0.5

# %% padding sequences
from torch.nn.utils.rnn import pad_sequence

seqs = [torch.tensor([1, 2, 3]), torch.tensor([4]), torch.tensor([5, 6])]
a = pad_sequence(seqs, batch_first=True)
b = pad_sequence(seqs, padding_value=-1)
lengths = torch.tensor([len(s) for s in seqs])
c = pad_sequence([torch.ones(2, 3), torch.ones(1, 3)], batch_first=True)

# %% multi head attention of the library
m = nn.MultiheadAttention(4, 2, batch_first=True)
for _p in m.parameters():
    nn.init.constant_(_p, 0.1)
x = torch.arange(12.0).view(1, 3, 4)
out, w = m(x, x, x)
out2, none = m(x, x, x, need_weights=False)
out3, _ = m(x, x, x, key_padding_mask=torch.tensor([[False, False, True]]))
r = [out.shape, w.shape, none is None]
m = None

# %% transformer encoder layer
layer = nn.TransformerEncoderLayer(
    d_model=4, nhead=2, dim_feedforward=8, dropout=0.0, batch_first=True
)
for _p in layer.parameters():
    nn.init.constant_(_p, 0.05)
y = layer(torch.arange(12.0).view(1, 3, 4)).detach()
enc = nn.TransformerEncoder(layer, num_layers=2)
r = [enc(torch.ones(2, 3, 4)).shape, len(list(enc.parameters()))]
layer = enc = None

# %% greedy decoding
table = torch.tensor([[0.1, 0.9, 0.0], [0.0, 0.1, 0.9], [0.8, 0.1, 0.1]])
ids = torch.tensor([[0]])
for _ in range(4):
    logits = table[ids[:, -1]]
    ids = torch.cat([ids, logits.argmax(-1, keepdim=True)], dim=1)

# %% top k and nucleus filters
logits = torch.tensor([[1.0, 3.0, 2.0, 0.0]])
v, _ = torch.topk(logits, 2)
k = logits.clone()
k[k < v[:, [-1]]] = -float("Inf")
sorted_logits, idx = torch.sort(logits, descending=True)
cum = torch.cumsum(F.softmax(sorted_logits, dim=-1), dim=-1)
remove = cum > 0.9
remove[..., 1:] = remove[..., :-1].clone()
remove[..., 0] = 0
p = logits.masked_fill(remove.scatter(1, idx, remove), float("-inf"))

# %% a cache of keys
cache = torch.zeros(1, 0, 2)
for t in range(3):
    cache = torch.cat([cache, torch.full((1, 1, 2), float(t))], dim=1)
size = cache.size(1)

# %% beam search step
scores = torch.tensor([0.0, -1.0])
logp = torch.log(torch.tensor([[0.5, 0.25, 0.25], [0.1, 0.8, 0.1]]))
total = scores.unsqueeze(1) + logp
best, flat = total.view(-1).topk(2)
beam = torch.div(flat, 3, rounding_mode="floor")
token = flat % 3

# %% a bag of embeddings
emb = nn.Embedding(5, 2)
nn.init.constant_(emb.weight, 1.0)
ids, mask = torch.tensor([[1, 2, 0]]), torch.tensor([[1.0, 1.0, 0.0]])
pooled = (emb(ids) * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True)

# %% bigram counts
ids = torch.tensor([0, 1, 1, 2, 0])
counts = torch.zeros(3, 3, dtype=torch.int32)
for a, b in zip(ids, ids[1:]):
    counts[a, b] += 1
P = (counts + 1).float()
P /= P.sum(1, keepdim=True)
nll = -P[ids[:-1], ids[1:]].log().mean()

# %% grouped queries
x = torch.arange(8.0).view(1, 2, 2, 2)
k = x[:, :1]
r = k.repeat_interleave(2, dim=1)
e = k[:, :, None].expand(1, 1, 2, 2, 2).reshape(1, 2, 2, 2)

# %% sliding window mask
T, w = 5, 2
i = torch.arange(T)
mask = (i[None, :] <= i[:, None]) & (i[:, None] - i[None, :] < w)
