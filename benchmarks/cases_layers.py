"""Layers that few programs have: a forward and a backward pass."""

from benchmarks.cases import case


@case("layers", "CTC loss of 16 x 200 steps, 50 classes, 30 labels")
def ctc(torch):
    x = torch.randn(200, 16, 50, requires_grad=True)
    targets = torch.randint(1, 50, (16, 30))
    steps, labels = torch.full((16,), 200), torch.full((16,), 30)

    def run():
        x.grad = None
        loss = torch.nn.functional.ctc_loss(x.log_softmax(2), targets, steps, labels)
        loss.backward()
        return loss

    return run


def _bags(mode, back):
    def make(torch):
        table = torch.randn(10_000, 64, requires_grad=back)
        index, offsets = torch.randint(0, 10_000, (8192,)), torch.arange(0, 8192, 16)

        def run():
            table.grad = None
            y = torch.nn.functional.embedding_bag(index, table, offsets, mode=mode)
            if back:
                y.sum().backward()
            return y

        return run

    make.__name__ = f"bags_{mode}" + ("_back" if back else "")
    case("layers", f"512 bags of 16 rows of 64, {mode}{', with gradient' * back}")(make)


for _mode in ("sum", "mean", "max"):
    _bags(_mode, False)
    _bags(_mode, True)


@case("layers", "Transformer, 2 + 2 layers of 128, 8 x 32 tokens")
def transformer(torch):
    model = torch.nn.Transformer(128, 4, 2, 2, 256, dropout=0.0, batch_first=True)
    x = torch.randn(8, 32, 128)

    def run():
        model.zero_grad()
        loss = model(x, x).sum()
        loss.backward()
        return loss

    return run


@case("layers", "adaptive softmax of 20 000 classes, 256 rows of 128")
def adaptive_softmax(torch):
    model = torch.nn.AdaptiveLogSoftmaxWithLoss(128, 20_000, [500, 3000, 10_000])
    x, y = torch.randn(256, 128), torch.randint(0, 20_000, (256,))

    def run():
        model.zero_grad()
        loss = model(x, y).loss
        loss.backward()
        return loss

    return run
