"""The public names of PyTorch, as "module name" lines, written by PyTorch: `python pytorch_names.py`."""

import importlib
import json
import types
import warnings

MODULES = """
torch torch.accelerator torch.accelerator.memory torch.amp torch.ao.quantization torch.autograd
torch.autograd.anomaly_mode torch.autograd.forward_ad torch.autograd.function torch.autograd.functional
torch.autograd.grad_mode torch.autograd.gradcheck torch.autograd.graph torch.autograd.profiler
torch.backends torch.backends.cpu torch.backends.cuda torch.backends.cudnn torch.backends.cusparselt
torch.backends.kleidiai torch.backends.mha torch.backends.miopen torch.backends.mkl torch.backends.mkldnn
torch.backends.mps torch.backends.nnpack torch.backends.openmp torch.backends.opt_einsum
torch.backends.quantized torch.backends.xeon torch.backends.xnnpack torch.compiler torch.cpu torch.cuda
torch.cuda.amp torch.cuda.graphs torch.cuda.jiterator torch.cuda.memory torch.cuda.nccl torch.cuda.nvtx
torch.cuda.profiler torch.cuda.random torch.cuda.streams torch.cuda.tunable torch.distributed
torch.distributions torch.distributions.constraints torch.distributions.kl torch.distributions.transforms
torch.distributions.utils torch.export torch.fft torch.func torch.functional torch.futures torch.fx
torch.hub torch.jit torch.library torch.linalg torch.masked torch.monitor torch.mps torch.mtia
torch.multiprocessing torch.nested torch.nn torch.nn.attention torch.nn.attention.bias
torch.nn.attention.flex_attention torch.nn.attention.varlen torch.nn.functional torch.nn.init
torch.nn.parallel torch.nn.parameter torch.nn.utils torch.nn.utils.fusion torch.nn.utils.parametrizations
torch.nn.utils.parametrize torch.nn.utils.prune torch.nn.utils.rnn torch.nn.utils.stateless torch.onnx
torch.optim torch.optim.lr_scheduler torch.optim.optimizer torch.optim.swa_utils torch.overrides
torch.package torch.profiler torch.quasirandom torch.random torch.serialization torch.signal.windows
torch.sparse torch.special torch.storage torch.testing torch.types torch.utils torch.utils.benchmark
torch.utils.checkpoint torch.utils.cpp_extension torch.utils.data torch.utils.data.dataloader
torch.utils.data.dataset torch.utils.data.distributed torch.utils.data.sampler torch.utils.deterministic
torch.utils.dlpack torch.utils.flop_counter torch.utils.hooks torch.utils.module_tracker torch.utils.weak
torch.version torch.xpu
""".split()

# An object of each class whose attributes count.
OBJECTS = {
    "Tensor": "torch.ones(2, requires_grad=True)",
    "Generator": "torch.Generator()",
    "dtype": "torch.float32",
    "device": "torch.device('cpu')",
    "finfo": "torch.finfo(torch.float32)",
    "iinfo": "torch.iinfo(torch.int8)",
    "Size": "torch.ones(2).shape",
    "UntypedStorage": "torch.ones(2).untyped_storage()",
    "nn.Module": "torch.nn.Linear(1, 1)",
    "nn.LSTM": "torch.nn.LSTM(1, 1)",
    "nn.MultiheadAttention": "torch.nn.MultiheadAttention(1, 1)",
    "nn.ParameterList": "torch.nn.ParameterList()",
    "nn.ParameterDict": "torch.nn.ParameterDict()",
    "nn.ModuleDict": "torch.nn.ModuleDict()",
    "nn.ModuleList": "torch.nn.ModuleList()",
    "optim.Optimizer": "torch.optim.Adam([torch.zeros(1)])",
    "optim.lr_scheduler.LRScheduler":
        "torch.optim.lr_scheduler.StepLR(torch.optim.SGD([torch.zeros(1)], 0.1), 1)",
    "optim.swa_utils.AveragedModel": "torch.optim.swa_utils.AveragedModel(torch.nn.Linear(1, 1))",
    "utils.data.DataLoader": "torch.utils.data.DataLoader([1])",
    "distributions.Normal": "torch.distributions.Normal(0.0, 1.0)",
    "distributions.Beta": "torch.distributions.Beta(1.0, 1.0)",
    "amp.GradScaler": "torch.amp.GradScaler('cpu')",
    "cuda.Event": "torch.cuda.Event",
    "cuda.Stream": "torch.cuda.Stream",
    "autograd.graph.Node": "(torch.ones(1, requires_grad=True) * 2).grad_fn",
    "SparseTensor": "torch.eye(2).to_sparse()",
    "nn.utils.rnn.PackedSequence":
        "torch.nn.utils.rnn.pack_sequence([torch.zeros(1)])",
}  # fmt: skip


def public(module):
    """What a module lists as its own, or else has from PyTorch; not what it only imports."""
    listed = set(getattr(module, "__all__", ()))
    for name in sorted(listed | {n for n in dir(module) if not n.startswith("_")}):
        value = getattr(module, name, None)
        if name in listed and not isinstance(value, types.ModuleType):
            yield name
        elif isinstance(value, types.ModuleType) or not callable(value):
            continue
        elif str(getattr(value, "__module__", "")).startswith(module.__name__):
            yield name


def attributes(torch, say):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [n for n in dir(eval(say, {"torch": torch})) if not n.startswith("_")]


def names(torch):
    """(module or class, name) of all."""
    found = [(m, n) for m in MODULES for n in public(importlib.import_module(m))]
    for kind, say in OBJECTS.items():
        found += [(f"torch.{kind}", n) for n in attributes(torch, say)]
    return found


if __name__ == "__main__":
    import torch

    print(json.dumps(names(torch)))
