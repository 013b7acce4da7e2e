"""PyTorch Geometric: layers of several kinds on one graph, batches of graphs with pooling, and a loop of
training."""

import numpy as np
import torch
from made_up import fill, report
from torch.nn import functional as F
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.loader import DataLoader
from torch_geometric.nn import (
    APPNP,
    GATv2Conv,
    GCNConv,
    GINConv,
    GraphNorm,
    HeteroConv,
    RGCNConv,
    SAGEConv,
    SAGPooling,
    TransformerConv,
    global_add_pool,
    global_max_pool,
    global_mean_pool,
)
from torch_geometric.utils import (
    add_self_loops,
    degree,
    negative_sampling,
    softmax,
    to_dense_adj,
    to_undirected,
)

rng = np.random.RandomState(0)


def graph(nodes, edges, label=0):
    edge = to_undirected(torch.tensor(rng.randint(0, nodes, (2, edges))))
    return Data(
        x=torch.tensor(rng.randn(nodes, 6).astype(np.float32)),
        edge_index=edge,
        y=torch.tensor([label]),
    )


one = graph(20, 50)
labels = torch.tensor(rng.randint(0, 3, 20))
kinds = torch.tensor(rng.randint(0, 2, one.edge_index.shape[1]))
layers = {
    "gcn": lambda a, b: GCNConv(a, b),
    "sage": lambda a, b: SAGEConv(a, b, aggr="max"),
    "gat": lambda a, b: GATv2Conv(a, b, heads=2, concat=False),
    "transformer": lambda a, b: TransformerConv(a, b, heads=2, concat=False),
    "gin": lambda a, b: GINConv(
        torch.nn.Sequential(torch.nn.Linear(a, b), torch.nn.ReLU(), torch.nn.Linear(b, b))
    ),
    "rgcn": lambda a, b: RGCNConv(a, b, 2),
}
for name, make in layers.items():
    first, second, norm = make(6, 8), make(8, 3), GraphNorm(8)
    net = fill(torch.nn.ModuleList([first, second, norm]), scale=0.4)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02, weight_decay=5e-4)
    extra = (kinds,) if name == "rgcn" else ()
    losses = []
    for _ in range(5):
        h = F.elu(norm(first(one.x, one.edge_index, *extra)))
        loss = F.cross_entropy(second(h, one.edge_index, *extra), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    report(name, torch.stack(losses), *net.parameters())
report("appnp", APPNP(4, 0.1)(one.x, one.edge_index))

graphs = [graph(rng.randint(4, 9), 8, i % 2) for i in range(12)]
conv, pool, head = GCNConv(6, 8), SAGPooling(8, 0.6), torch.nn.Linear(24, 2)
net = fill(torch.nn.ModuleList([conv, pool, head]), scale=0.4)
optimizer = torch.optim.AdamW(net.parameters(), lr=0.02)
losses = []
for _ in range(2):
    for batch in DataLoader(graphs, batch_size=4):
        h = F.relu(conv(batch.x, batch.edge_index))
        h, edge, _, where, _, _ = pool(h, batch.edge_index, batch=batch.batch)
        h = torch.cat(
            [f(h, where) for f in (global_add_pool, global_mean_pool, global_max_pool)], 1
        )
        loss = F.cross_entropy(head(h), batch.y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
report("graphs", torch.stack(losses))

both = HeteroData()
both["a"].x, both["b"].x = torch.ones(3, 4), torch.ones(2, 4) * 2
both["a", "to", "b"].edge_index = torch.tensor([[0, 1, 2], [0, 1, 1]])
both["b", "back", "a"].edge_index = torch.tensor([[0, 1], [2, 0]])
mixed = HeteroConv({e: SAGEConv((4, 4), 5) for e in both.edge_types})
fill(mixed, scale=0.4)
out = mixed(both.x_dict, both.edge_index_dict)
report("two kinds", out["a"], out["b"])

whole = Batch.from_data_list(graphs[:3])
assert [d.num_nodes for d in whole.to_data_list()] == [d.num_nodes for d in graphs[:3]]
report("dense", to_dense_adj(whole.edge_index, whole.batch))
report("degrees", degree(whole.edge_index[0], whole.num_nodes))
report("softmax", softmax(whole.x, whole.batch))
report("loops", add_self_loops(whole.edge_index)[0])
assert negative_sampling(one.edge_index, 20, 5).shape[0] == 2
