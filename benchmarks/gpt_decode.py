"""One token after another from a GPT-2: PyFlame's own model and captured step, and PyTorch's operations in a
plain loop, which on a GPU is a CUDA graph."""

COLUMNS = 256  # of the cache
BEGIN = 64  # tokens that are in it


def steps(torch, device, dtype, batch, count, **sizes):
    """A function that makes `count` tokens behind BEGIN others, for `batch` texts."""
    dtype = getattr(torch, dtype)
    return (_ours if torch.__name__ == "pyflame" else _plain)(
        torch, device, dtype, batch, count, sizes
    )


def weights(layers, width, vocab, **_):
    """Numbers that a token reads: the table of tokens once, as the last product."""
    return layers * (12 * width * width + 13 * width) + vocab * width + 2 * width


def _ours(pf, device, dtype, batch, count, sizes):
    from pyflame.models import GPT2

    model = GPT2(**sizes, device=device, dtype=dtype).eval()
    decoder = model.decoder(batch, COLUMNS)
    first = pf.full((batch,), 5, dtype=pf.int64, device=device)
    how = (0.0, None, None), (), 0, None  # the likeliest token

    def run():
        with pf.no_grad():
            decoder.cache.used.fill_(BEGIN + 1)
            tokens = first
            for _ in range(count):
                tokens = decoder._step(tokens, None, how)
            return tokens

    for _ in range(3):
        run()
    return run


def _plain(torch, device, dtype, batch, count, sizes):
    F = torch.nn.functional
    layers, width, heads, vocab = (sizes[k] for k in ("layers", "width", "heads", "vocab"))

    def matrix(outputs, inputs):
        return (torch.randn(outputs, inputs, device=device) * 0.02).to(dtype)

    def linear(outputs, inputs):
        return matrix(outputs, inputs), torch.zeros(outputs, device=device, dtype=dtype)

    def norm():
        one = torch.ones(width, device=device, dtype=dtype)
        return one, torch.zeros_like(one)

    table, places, last = matrix(vocab, width), matrix(1024, width), norm()
    blocks = [
        (norm(), linear(3 * width, width), linear(width, width), norm(), linear(4 * width, width),
         linear(width, 4 * width))
        for _ in range(layers)
    ]  # fmt: skip
    shape = batch, COLUMNS, heads, width // heads
    caches = [[torch.zeros(shape, device=device, dtype=dtype) for _ in "kv"] for _ in range(layers)]
    token = torch.full((batch, 1), 5, device=device)
    at = torch.full((1,), BEGIN, device=device)
    columns = torch.arange(COLUMNS, device=device)

    def step():
        x = table[token] + places[at]
        seen = (columns <= at).view(1, 1, 1, COLUMNS)
        for (norm1, qkv, out, norm2, up, down), kept in zip(blocks, caches):
            q, k, v = (
                F.linear(F.layer_norm(x, (width,), *norm1), *qkv)
                .view(batch, 1, 3, heads, width // heads)
                .unbind(2)
            )
            for whole, new in zip(kept, (k, v)):
                whole.index_copy_(1, at, new)
            y = F.scaled_dot_product_attention(
                *(t.transpose(1, 2) for t in (q, *kept)), attn_mask=seen
            )
            x = x + F.linear(y.transpose(1, 2).reshape(batch, 1, width), *out)
            y = F.linear(F.layer_norm(x, (width,), *norm2), *up)
            x = x + F.linear(F.gelu(y, approximate="tanh"), *down)
        logits = F.linear(F.layer_norm(x, (width,), *last), table)
        token.copy_(logits.argmax(-1))
        at.add_(1)

    one = step
    if str(device) != "cpu":
        with torch.no_grad():
            side = torch.cuda.Stream()
            with torch.cuda.stream(side):
                for _ in range(3):
                    step()
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                step()
        one = graph.replay

    def run():
        with torch.no_grad():
            at.fill_(BEGIN)
            for _ in range(count):
                one()

    return run
