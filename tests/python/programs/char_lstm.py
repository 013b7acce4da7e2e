"""A character model with an LSTM cell written by hand: truncated backpropagation, then sampling."""

import math

TEXT = "the quick brown fox jumps over the lazy dog. " * 12


def run(torch, fill, steps=30):
    nn = torch.nn

    class LSTMCell(nn.Module):
        def __init__(self, input_size, hidden_size):
            super().__init__()
            self.hidden_size = hidden_size
            self.weight_ih = nn.Parameter(torch.empty(4 * hidden_size, input_size))
            self.weight_hh = nn.Parameter(torch.empty(4 * hidden_size, hidden_size))
            self.bias = nn.Parameter(torch.zeros(4 * hidden_size))
            self.reset_parameters()

        def reset_parameters(self):
            bound = 1.0 / math.sqrt(self.hidden_size)
            for w in self.parameters():
                w.data.uniform_(-bound, bound)

        def forward(self, x, state):
            hx, cx = state
            gates = torch.addmm(self.bias, x, self.weight_ih.t()) + hx.mm(self.weight_hh.t())
            i, f, g, o = gates.chunk(4, 1)
            cy = torch.sigmoid(f) * cx + torch.sigmoid(i) * torch.tanh(g)
            return torch.sigmoid(o) * torch.tanh(cy), cy

    class CharRNN(nn.Module):
        def __init__(self, symbols, hidden=32):
            super().__init__()
            self.embedding = nn.Embedding(symbols, 12)
            self.cell = LSTMCell(12, hidden)
            self.out = nn.Linear(hidden, symbols)
            self.hidden = hidden

        def forward(self, x, state=None):
            batch, length = x.size()
            if state is None:
                zeros = self.out.weight.new_zeros(batch, self.hidden)
                state = (zeros, torch.zeros_like(zeros))
            embedded, outputs = self.embedding(x), []
            for t in range(length):
                state = self.cell(embedded[:, t], state)
                outputs.append(state[0])
            return self.out(torch.stack(outputs, dim=1)), state

    symbols = sorted(set(TEXT))
    data = torch.tensor([symbols.index(c) for c in TEXT], dtype=torch.long)
    model = CharRNN(len(symbols))
    fill(model)
    with torch.no_grad():  # forget little at first
        model.cell.bias[32:64].fill_(1.0)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    batch, length = 4, 15
    count = (len(data) - 1) // (batch * length) * batch * length
    xs, ys = data[:count].view(batch, -1), data[1 : count + 1].view(batch, -1)
    losses, state = [], None
    for step in range(steps):
        at = step * length % xs.size(1)
        if at == 0:
            state = None
        if state is not None:
            state = tuple(s.detach_() for s in state)
        x, y = xs[:, at : at + length], ys[:, at : at + length]
        optimizer.zero_grad(set_to_none=True)
        logits, state = model(x, state)
        loss = criterion(logits.reshape(-1, logits.size(-1)), y.reshape(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())

    model.eval()
    x, state, text = data[:1].view(1, 1), None, []
    with torch.inference_mode():
        for _ in range(10):
            logits, state = model(x, state)
            x = torch.multinomial(torch.softmax(logits[0, -1] / 0.5, dim=-1), 1).unsqueeze(0)
            text.append(symbols[x.item()])
    assert len("".join(text)) == 10
    return losses
