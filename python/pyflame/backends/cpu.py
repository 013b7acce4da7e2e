"""torch.backends.cpu: what the CPU has."""

from .. import _C


def get_cpu_capability():
    """The widest vector instructions that are used, as PyTorch names them: "AVX2", "AVX512"."""
    sets = str(_C.device_info("cpu").get("instruction_sets", "")).upper().split()
    return next((s for s in ("AVX512", "AVX2") if any(w.startswith(s) for w in sets)), "DEFAULT")
