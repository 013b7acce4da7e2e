"""Sequences of different lengths in one batch: padding masks, nn.MultiheadAttention, pooling."""


def run(torch, fill, steps=30):
    nn, F = torch.nn, torch.nn.functional

    class Encoder(nn.Module):
        def __init__(self, vocab=20, dim=24, heads=3):
            super().__init__()
            self.embed = nn.Embedding(vocab, dim, padding_idx=0)
            self.position = nn.Parameter(torch.zeros(1, 12, dim))
            self.attention = nn.MultiheadAttention(dim, heads, batch_first=True)
            self.encoder = nn.TransformerEncoderLayer(
                dim, heads, dim_feedforward=48, dropout=0.0, activation="gelu", batch_first=True,
                norm_first=True,
            )  # fmt: skip
            self.head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2))

        def forward(self, tokens):
            padding = tokens.eq(0)
            x = self.embed(tokens) + self.position[:, : tokens.shape[1]]
            y, weights = self.attention(x, x, x, key_padding_mask=padding)
            assert weights.shape == (tokens.shape[0], tokens.shape[1], tokens.shape[1])
            x = x + y
            x = self.encoder(x, src_key_padding_mask=padding)
            keep = (~padding).unsqueeze(-1).to(x.dtype)
            pooled = (x * keep).sum(dim=1) / keep.sum(dim=1).clamp(min=1)
            return self.head(pooled)

    def scores(q, k, v, mask):
        """The same attention three ways."""
        s = torch.einsum("bhid,bhjd->bhij", q, k) / q.shape[-1] ** 0.5
        s = torch.where(mask, s, torch.full_like(s, float("-inf")))
        a = torch.einsum("bhij,bhjd->bhid", torch.softmax(s, dim=-1), v)
        b = torch.softmax(
            torch.matmul(q, k.permute(0, 1, 3, 2)) * q.size(3) ** -0.5
            + (~mask).float() * -1e9, -1
        ) @ v  # fmt: skip
        c = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return a, b, c

    lengths = torch.tensor([12, 5, 9, 3, 7, 12, 1, 4])
    steps_ = torch.arange(12)[None, :]
    tokens = (steps_ * 3 + lengths[:, None] * 5) % 19 + 1
    tokens = tokens.masked_fill(steps_ >= lengths[:, None], 0)
    labels = (tokens > 10).sum(1).gt((tokens > 0).sum(1) // 2).long()

    mask = tokens.ne(0)[:, None, None, :].expand(8, 2, 12, 12)
    angle = torch.arange(8 * 2 * 12 * 4, dtype=torch.float32).view(8, 2, 12, 4)
    q, k, v = torch.sin(angle), torch.cos(angle * 0.7), torch.sin(angle * 1.3)
    a, b, c = scores(q, k, v, mask)
    assert torch.allclose(a, b, atol=1e-5) and torch.allclose(a, c, atol=1e-5)

    model = Encoder()
    fill(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(steps):
        loss = F.cross_entropy(model(tokens), labels)
        optimizer.zero_grad()
        loss.backward()
        assert (model.embed.weight.grad[0] == 0).all()
        optimizer.step()
        losses.append(loss.item())
    return losses
