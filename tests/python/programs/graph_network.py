"""A graph of three groups of nodes: convolution and attention along its edges, sparse all through, over
features and a table whose gradient is sparse."""


def run(torch, fill, steps=30):
    nn, F = torch.nn, torch.nn.functional
    n = 60
    group = torch.arange(n) % 3

    # Edges mostly within a group, to the neighbours on a ring of it; some lead elsewhere.
    start = torch.arange(n).repeat(4)
    step = torch.tensor([3, 6, 9, 7]).repeat_interleave(n)
    edges = torch.stack([start, (start + step) % n])
    edges = torch.cat([edges, edges.flip(0)], 1)

    def normalized():
        a = torch.sparse_coo_tensor(edges, torch.ones(edges.shape[1]), (n, n))
        a = (a + torch.eye(n).to_sparse()).coalesce()
        degree = torch.sparse.sum(a, dim=1).to_dense()
        d = torch.diag(degree.pow(-0.5)).to_sparse()
        scaled = torch.sparse.mm(torch.sparse.mm(d, a), d).coalesce()
        assert scaled.is_sparse and scaled.layout == torch.sparse_coo
        return scaled

    class Convolution(nn.Module):
        def __init__(self, inputs, outputs):
            super().__init__()
            self.weight = nn.Parameter(torch.empty(inputs, outputs))
            self.bias = nn.Parameter(torch.zeros(outputs))

        def forward(self, x, adjacency):
            return torch.spmm(adjacency, torch.mm(x, self.weight)) + self.bias

    class Attention(nn.Module):
        """Scores of edges from both of their ends, softmax over those of a node."""

        def __init__(self, width):
            super().__init__()
            self.left, self.right = nn.Linear(width, 1), nn.Linear(width, 1)

        def forward(self, x, adjacency):
            at = adjacency.indices()
            score = (self.left(x)[at[0]] + self.right(x)[at[1]]).squeeze(1)
            scores = torch.sparse_coo_tensor(at, F.leaky_relu(score, 0.2), adjacency.shape)
            return torch.sparse.mm(torch.sparse.softmax(scores, dim=1), x)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.attend = Convolution(12, 16), Attention(16)
            self.last = Convolution(16, 3)

        def forward(self, x, adjacency):
            x = self.attend(F.relu(self.first(x, adjacency)), adjacency)
            return F.log_softmax(self.last(x, adjacency), dim=1)

    adjacency = normalized()
    angle = torch.arange(n * 6, dtype=torch.float32).view(n, 6)
    noise = torch.sin(angle * 1.7) + F.one_hot(group, 6).float()
    net, table = Net(), nn.Embedding(n, 6, sparse=True)
    fill(net)
    fill(table)
    optimizers = [
        torch.optim.Adam(net.parameters(), lr=2e-2),
        torch.optim.SparseAdam(table.parameters(), lr=1e-2),
    ]
    train = torch.arange(n) < 40
    losses = []
    for _ in range(steps):
        for optimizer in optimizers:
            optimizer.zero_grad()
        out = net(torch.cat([noise, table(torch.arange(n))], 1), adjacency)
        loss = F.nll_loss(out[train], group[train])
        loss.backward()
        assert table.weight.grad.is_sparse and table.weight.grad._nnz() == n
        for optimizer in optimizers:
            optimizer.step()
        losses.append(loss.item())
    return losses
