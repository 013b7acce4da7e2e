"""`pyflame env`: the variables of the environment that GPUs and training are set up with, and what each does
here; with --export a script for bash that sets them for this machine."""

import json
import os
import shlex
import shutil

from .. import _C
from ..training.output import say

# What each does. "-" in front: PyFlame does not read it, nor does what it calls.
_EFFECTS = {
    "ROCM_PATH": "where libraries of ROCm are looked for",
    "HIP_VISIBLE_DEVICES": "AMD GPUs that are seen, read when the first one is asked for",
    "ROCR_VISIBLE_DEVICES": "the same, of the runtime below",
    "CUDA_VISIBLE_DEVICES": "NVIDIA GPUs that are seen",
    "MIOPEN_FIND_MODE": "MIOpen's: how it searches for convolutions",
    "MIOPEN_USER_DB_PATH": "MIOpen's: where it keeps what it has found",
    "PYTORCH_ROCM_ARCH": "-architectures of a build of PyTorch; for PyFlame: cmake -DPYFLAME_GPU_PACK",
    "PYFLAME_ALLOC_CONF": "settings of the allocators",
    "PYTORCH_HIP_ALLOC_CONF": "read where PYFLAME_ALLOC_CONF is not set",
    "PYTORCH_CUDA_ALLOC_CONF": "read where neither of these is set",
    "PYTORCH_ALLOC_CONF": "read where none of these is set",
    "HSA_ENABLE_SDMA": "AMD's: 0 copies by kernels, not by copy engines",
    "HSA_ENABLE_INTERRUPT": "AMD's: 0 waits for the GPU in a loop, which keeps a core busy",
    "HSA_UNALIGNED_ACCESS_MODE": "AMD's: unaligned accesses to memory",
    "HSA_OVERRIDE_GFX_VERSION": "AMD's: a GPU pretends to be another; kernels may compute nonsense",
    "GPU_MAX_ALLOC_PERCENT": "-AMD's, of OpenCL",
    "GPU_SINGLE_ALLOC_PERCENT": "-AMD's, of OpenCL",
    "HIP_HIDDEN_FREE_MEM": "AMD's: MB that are not told as free",
    "PYFLAME_COMPILE_BACKEND": "backend of pf.compile where a call names none",
    "TORCH_COMPILE_BACKEND": "-use PYFLAME_COMPILE_BACKEND",
    "CUDA_LAUNCH_BLOCKING": "1 waits after every kernel, for finding errors; slow",
    "HIP_LAUNCH_BLOCKING": "the same",
    "AMD_SERIALIZE_KERNEL": "3: the same, of AMD's runtime",
    "PYFLAME_GPU_GEMM": "own or library: whose matrix products on GPUs",
    "TORCH_BLAS_PREFER_HIPBLASLT": "-use PYFLAME_GPU_GEMM",
    "AMD_LOG_LEVEL": "AMD's: 1 to 4, what its runtime says",
    "ROCM_LOG_LEVEL": "-use AMD_LOG_LEVEL",
    "PYFLAME_NUM_THREADS": "threads on the CPU",
    "OMP_NUM_THREADS": "the same, where PYFLAME_NUM_THREADS is not set",
    "PYFLAME_STRICT": "1 refuses copies that nobody asked for, and slow ways",
    "PYFLAME_EAGER": "1 runs every operation by itself; slow",
    "XDG_CACHE_HOME": "its folder pyflame keeps compiled kernels and measured choices",
    "WORLD_SIZE": "of programs for PyTorch: their processes that train together; more than 1 is refused",
    "RANK": "of these: which process this is, 0",
    "MASTER_ADDR": "-of several processes that train together, which PyFlame does not have",
    "MASTER_PORT": "-the same",
    "NCCL_DEBUG": "-the same",
    "NCCL_SOCKET_IFNAME": "-the same",
    "NCCL_NSOCKS_PERTHREAD": "-the same",
}  # fmt: skip
_SLOW = ("CUDA_LAUNCH_BLOCKING", "HIP_LAUNCH_BLOCKING", "AMD_SERIALIZE_KERNEL", "PYFLAME_EAGER")


def _warning(name, value):
    """What is wrong with a value, or None."""
    if name in _SLOW and value not in ("", "0"):
        return "on: everything is slow"
    if name == "ROCM_PATH" and not os.path.isdir(value):
        return "there is no such folder"
    if name.endswith("_VISIBLE_DEVICES") and value == "":
        return "empty: hides every GPU"
    return None


def variables():
    """A dict for each variable: name, value (None: not set), effect, read (by PyFlame or by what it
    calls) and warning (None: nothing is wrong)."""
    return [
        {
            "name": name,
            "value": (value := os.environ.get(name)),
            "effect": effect.removeprefix("-"),
            "read": not effect.startswith("-"),
            "warning": None if value is None else _warning(name, value),
        }
        for name, effect in _EFFECTS.items()
    ]


def _gpus(vendor):
    """Usable GPUs of a vendor, as `device_info` tells of them."""
    if _C.backend_status().get(vendor) != "loaded":
        return []
    found = [_C.device_info(_C.device(vendor, i)) for i in range(_C._device_count(vendor))]
    return [g for g in found if g["usable"] == "yes"]


def _for_this_machine():
    """(comment, name, value) of what to set here, in order; what is set already is left out."""
    amd, nvidia = _gpus("rocm"), _gpus("cuda")
    rocm = os.environ.get("ROCM_PATH") or "/opt/rocm"
    rocminfo = shutil.which("rocminfo")
    if not os.path.isdir(rocm) and rocminfo:
        rocm = os.path.dirname(os.path.dirname(os.path.realpath(rocminfo)))
    if os.path.isdir(rocm):
        yield "ROCm's folder", "ROCM_PATH", rocm
    for gpus, name in ((amd, "HIP_VISIBLE_DEVICES"), (nvidia, "CUDA_VISIBLE_DEVICES")):
        if gpus:
            names = ", ".join(dict.fromkeys(str(g["name"]) for g in gpus))
            yield f"GPUs to be seen: {names}", name, ",".join(map(str, range(len(gpus))))
    if amd:
        targets = dict.fromkeys(str(g["architecture"]).split(":")[0] for g in amd)
        yield "architectures, for builds of other software", "PYTORCH_ROCM_ARCH", ";".join(targets)
    if amd or nvidia:
        yield ("unused segments are given back before new ones are taken", "PYFLAME_ALLOC_CONF",
               "garbage_collection_threshold:0.8")  # fmt: skip
        blocking = "HIP_LAUNCH_BLOCKING" if amd else "CUDA_LAUNCH_BLOCKING"
        yield "1 would wait after every kernel", blocking, "0"
    yield "threads on the CPU: one a core", "PYFLAME_NUM_THREADS", str(_C.get_num_threads())


def script():
    """A script for bash that sets up this machine. What is set where it is made keeps its value; slow
    settings are not taken over."""
    lines = [
        "#!/bin/bash",
        f"# PyFlame {_C.__version__} on this machine; made by `pyflame env --export`",
        "",
        'echo "Setting up the environment of PyFlame..."',
        "",
    ]
    proposed = {name: (comment, value) for comment, name, value in _for_this_machine()}
    for v in variables():
        name, value = v["name"], v["value"]
        comment = v["effect"]
        if value is None or v["warning"] or not v["read"]:
            if name not in proposed:
                continue
            comment, value = proposed[name]
        lines += [f"# {comment}", f"export {name}={shlex.quote(value)}", ""]
    gpus = sum(len(_gpus(vendor)) for vendor in ("rocm", "cuda"))
    what = "the CPU" if gpus == 0 else f"{gpus} GPU{'s' * (gpus > 1)}"
    lines.append(f'echo "PyFlame is set up for {what}"')
    return "\n".join(lines)


def command(args):
    """What `pyflame env` does."""
    if args.export:
        say(script())
    elif args.json:
        say(json.dumps(variables(), indent=1))
    else:
        for v in variables():
            value = "not set" if v["value"] is None else shlex.quote(v["value"])
            notes = ([] if v["read"] else ["not read"]) + ([v["warning"]] if v["warning"] else [])
            say(f"{v['name']:28} {value:20} {v['effect']}" + "".join(f"; {n}" for n in notes))
    return 0
