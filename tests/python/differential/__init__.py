"""Every operation beside PyTorch's, on drawn arguments.

draw.py        programs of a few lines, from schemas: ours, aten's, and signatures of functions
hints.py       what no schema says: shapes that belong together, indices, texts, domains
compare.py     runs a program under both modules and says what differs
exceptions.py  differences that are meant, each with its reason: what only one side takes; the results
               are in results.py, what an entry is in exempt.py
not_drawn.py   operations that are not drawn, and why

A case is a program text in which `m` stands for the module: what runs is what a failure prints.
Arguments come from three sources of signatures, so that a spelling that only one side has is drawn
too: the registry's schemas, the schemas of PyTorch's own operators, and `inspect.signature` of
functions that PyTorch writes in Python. Types say what to draw; names of parameters say more (`dim`
is a dimension, `index` holds positions), and hints.py says the rest. PyTorch judges: of the drawn
programs as many as are wanted of those it accepts, and fewer of those it refuses, are compared:
value with NaN and infinities in place, dtype, shape, what became of the arguments, whose memory the
result shares, requires_grad, gradients (float64, and fewer of the others; random cotangents), second
derivatives for a share, and refusal: both or none, ours with a typed error. Seeds come from names, so a new operation changes no other's draws.
"""
