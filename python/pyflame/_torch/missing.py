"""What is said when a program asks for a name of torch that is not there."""

import os

# Names of torch, or beginnings of them: what to do instead. The longest that fits is said.
ADVICE = {
    "torch._C": "these are PyTorch's own insides",
    "torch._export": "these are PyTorch's own insides",
    "torch.ao": "quantization of models is not there yet",
    "torch.quantize_per_tensor": "quantized tensors are not there yet",
    "torch.quantize_per_channel": "quantized tensors are not there yet",
    "torch.nn.quantized": "quantized layers are not there yet",
    "torch.nn.intrinsic": "quantized layers are not there yet",
    "torch.nn.qat": "quantized layers are not there yet",
    "torch.nn.quantizable": "quantized layers are not there yet",
    "torch.package": "packages hold pickles, which PyFlame never runs; save a state_dict()",
    "torch.monitor": "use logging",
    "torch.mtia": "there is no device of this kind; use torch.accelerator",
    "torch.hpu": "there is no device of this kind; use torch.accelerator",
    "torch.npu": "there is no device of this kind; use torch.accelerator",
    "torch.utils.bundled_inputs": "TorchScript needs PyTorch",
    "torch.utils.mobile_optimizer": "TorchScript needs PyTorch",
    "torch.distributed": "training by several processes is not there yet",
    "torch.testing._internal": "these are PyTorch's own tests",
    "torch.complex32": "complex numbers of two halves are not there; use complex64",
    "torch.chalf": "complex numbers of two halves are not there; use complex64",
    "torch.cuda.temperature": "the driver's tools tell it (nvidia-smi, rocm-smi)",
    "torch.cuda.power_draw": "the driver's tools tell it (nvidia-smi, rocm-smi)",
    "torch.cuda.clock_rate": "the driver's tools tell it (nvidia-smi, rocm-smi)",
    "torch.cuda.utilization": "the driver's tools tell it (nvidia-smi, rocm-smi)",
    "torch.cuda.memory_usage": "the driver's tools tell it; memory_allocated() counts the program's own",
    "torch.cuda.CUDAPluggableAllocator": "docs/memory.md says what the allocator can be told",
    "torch.cuda.ExternalStream": "streams of others are not taken; use DLPack or events to wait",
    "torch.utils.data.IterDataPipe": "PyTorch keeps data pipes for old programs; use IterableDataset",
    "torch.utils.data.MapDataPipe": "PyTorch keeps data pipes for old programs; use Dataset",
    "torch.utils.data.functional_datapipe": "PyTorch keeps data pipes for old programs; use Dataset",
    "torch.eig": "PyTorch has taken it out, too; use linalg.eig",
    "torch.lstsq": "PyTorch has taken it out, too; use linalg.lstsq",
    "torch.matrix_rank": "PyTorch has taken it out, too; use linalg.matrix_rank",
    "torch.Graph": "graphs of TorchScript need PyTorch",
}
_OTHERWISE = "docs/pytorch_left_out.md says what is left out, and why"


def advice(full):
    """What to do where there is no such name, or None."""
    at = full
    while at:
        if at in ADVICE:
            return ADVICE[at]
        at = at.rpartition(".")[0]
    return None


def _plain(name):
    return name.casefold().replace("_", "")


def near(name, names):
    """The name that was probably meant, or None."""
    plain = {}
    for other in names:
        if not other.startswith("_"):
            plain.setdefault(_plain(other), other)
    alike = _plain(name)
    if alike in plain or len(name) < 4:
        return plain.get(alike)
    import difflib  # its regular expressions take longer to import than we do

    found = difflib.get_close_matches(alike, plain, 1, 0.8)
    return plain[found[0]] if found else None


def reason(module, name, names):
    """The end of the message: what to use in place of `module`.`name`."""
    told = advice(f"{module}.{name}")
    if told is None and (other := near(name, names)):
        told = f"did you mean {module}.{other}?"
    return told or _OTHERWISE


def message(module, name, names):
    """All of it."""
    return f"{module}.{name} is not in PyFlame; {reason(module, name, names)}"


class MissingName(AttributeError):
    """An attribute that is not there. Its text is made when somebody reads it: most who ask whether
    a module has a name do not."""

    def __init__(self, module, name):
        # obj stays None, or Python adds a guess of its own.
        super().__init__(name=name)
        self.module = module

    def __str__(self):
        return message(self.module.__name__, self.name, dir(self.module))

    def __reduce__(self):
        return AttributeError, (str(self),)


class MissingHere(MissingName):
    """The same of `import pyflame`, whose names are more than Python looks through for a guess."""

    def __str__(self):
        text, full = f"module 'pyflame' has no attribute '{self.name}'", f"torch.{self.name}"
        told = advice(full)
        if told is None and _only_there(self.name):
            told = f"{full} is there for programs under `pyflame run`"
        if told is None and (other := near(self.name, dir(self.module))):
            told = f"did you mean '{other}'?"
        return f"{text}; {told}" if told else text


def _only_there(name):
    """Whether a module has its name under PyTorch's alone."""
    return os.path.exists(os.path.join(os.path.dirname(__file__), "only", name)) or os.path.exists(
        os.path.join(os.path.dirname(__file__), "only", f"{name}.py")
    )


# What a traceback calls them.
for _kind in (MissingName, MissingHere):
    _kind.__module__, _kind.__qualname__ = "builtins", "AttributeError"
