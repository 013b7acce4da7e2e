"""Names that programs import and use only where what they are about is there."""

import types

from .. import _C, manual_seed

SEVERAL = "training by several processes is not there yet; run one process"


class Absent(type):
    """The class of such names: none has objects, and calling one says why."""

    def __call__(cls, *args, **kwargs):
        raise _C.NotSupportedError(f"{cls.__module__}.{cls.__qualname__}: {cls.why}")


def absent(module, why):
    """A module's function that makes such names, and keeps them."""
    made = {}

    def name(text):
        if text not in made:
            made[text] = Absent(
                text, (), {"__module__": module, "__doc__": f"Not there: {why}.", "why": why}
            )
        return made[text]

    return name


def missing_from(module, why):
    """A module's __getattr__ for names that nothing here has."""

    def __getattr__(name):
        if name.startswith("__"):
            raise AttributeError(f"module '{module}' has no attribute '{name}'")
        raise AttributeError(f"{module}.{name} is not in PyFlame; {why}", name=name)

    return __getattr__


_OF_DEVICES = (
    "current_device current_stream get_device_capability get_device_name get_device_properties "
    "get_rng_state max_memory_allocated mem_get_info memory_allocated current_allocated_memory "
    "driver_allocated_memory recommended_max_memory set_device set_rng_state stream synchronize "
    "Event Stream"
)


def no_device(module, kind):
    """The functions of a device's module, by name, where there is no such device: questions are
    answered so, what needs one raises DeviceError."""

    def is_available():
        """False."""
        return False

    def device_count():
        """0."""
        return 0

    def is_initialized():
        """False."""
        return False

    def is_bf16_supported(including_emulation=True):
        """False."""
        return False

    def empty_cache():
        """Accepted: there is nothing to give back."""

    def manual_seed_all(seed):
        """Seeds the one generator."""
        manual_seed(seed)

    def needs(text):
        def function(*args, **kwargs):
            raise _C.DeviceError(
                f"{module}.{text}: there is no {kind} device in PyFlame; expected a GPU under "
                "torch.cuda, or the CPU; ask torch.accelerator which there is"
            )

        function.__name__ = function.__qualname__ = text
        function.__doc__ = f"DeviceError: there is no {kind} device."
        return function

    answers = (
        is_available, device_count, is_initialized, is_bf16_supported, empty_cache, manual_seed_all,
    )  # fmt: skip
    named = {f.__name__: f for f in answers} | {"manual_seed": manual_seed}
    return named | {text: needs(text) for text in _OF_DEVICES.split()}


# Modules of nothing but such names: why they are not there, and the names.
_MODULES = {
    "torch.ao": ("quantization of models is not there yet", ""),
    "torch.ao.quantization": ("quantization of models is not there yet", """
        QuantStub DeQuantStub QuantWrapper QConfig QConfigMapping FakeQuantize FakeQuantizeBase
        MinMaxObserver MovingAverageMinMaxObserver HistogramObserver ObserverBase
        PerChannelMinMaxObserver convert default_observer default_per_channel_weight_observer
        default_qat_qconfig default_qconfig default_weight_observer disable_fake_quant
        disable_observer enable_fake_quant enable_observer fuse_modules fuse_modules_qat
        get_default_qat_qconfig get_default_qat_qconfig_mapping get_default_qconfig
        get_default_qconfig_mapping prepare prepare_qat quantize quantize_dynamic quantize_qat
    """),
    "torch.distributed._composable": (SEVERAL, ""),
    "torch.distributed.checkpoint": (SEVERAL, """
        load save async_save load_state_dict save_state_dict FileSystemReader FileSystemWriter
        DefaultLoadPlanner DefaultSavePlanner StorageReader StorageWriter
    """),
    "torch.distributed.device_mesh": (SEVERAL, "DeviceMesh init_device_mesh"),
    "torch.distributed.fsdp": (SEVERAL, """
        FullyShardedDataParallel BackwardPrefetch ShardingStrategy MixedPrecision CPUOffload
        StateDictType FullStateDictConfig ShardedStateDictConfig LocalStateDictConfig
        FullOptimStateDictConfig ShardedOptimStateDictConfig OptimStateDictConfig StateDictConfig
        FSDPModule fully_shard MixedPrecisionPolicy OffloadPolicy CPUOffloadPolicy
        register_fsdp_forward_method UnshardHandle
    """),
    "torch.distributed.fsdp.fully_sharded_data_parallel": (SEVERAL, """
        FullyShardedDataParallel BackwardPrefetch ShardingStrategy MixedPrecision CPUOffload
        StateDictType FullStateDictConfig LocalStateDictConfig ShardedStateDictConfig
    """),
    "torch.distributed.fsdp.wrap": (SEVERAL, """
        size_based_auto_wrap_policy transformer_auto_wrap_policy always_wrap_policy enable_wrap wrap
        lambda_auto_wrap_policy ModuleWrapPolicy CustomPolicy
    """),
    "torch.distributed.nn": (SEVERAL, """
        RemoteModule all_gather all_reduce all_to_all all_to_all_single broadcast gather reduce
        reduce_scatter scatter
    """),
    "torch.distributed.optim": (
        SEVERAL, "ZeroRedundancyOptimizer DistributedOptimizer PostLocalSGDOptimizer",
    ),
    "torch.distributed.rpc": (SEVERAL, """
        init_rpc shutdown rpc_sync rpc_async remote RRef TensorPipeRpcBackendOptions get_worker_info
        BackendType RpcBackendOptions
    """),
    "torch.distributed.tensor": (SEVERAL, """
        DTensor DeviceMesh Placement Partial Replicate Shard distribute_module distribute_tensor empty
        full ones rand randn zeros init_device_mesh
    """),
    "torch.distributed.tensor.experimental": (SEVERAL, "implicit_replication local_map"),
    "torch.distributed.tensor.parallel": (SEVERAL, """
        ColwiseParallel RowwiseParallel SequenceParallel ParallelStyle PrepareModuleInput
        PrepareModuleInputOutput PrepareModuleOutput parallelize_module loss_parallel
    """),
    "torch.testing._internal": ("these are PyTorch's own tests", ""),
    "torch.testing._internal.composite_compliance": (
        "these are PyTorch's own tests", "is_inplace is_inplace_view_fn is_view_fn",
    ),
    "torch.utils.cpp_extension": (
        "C++ extensions are built against PyTorch; write a kernel with pyflame.kernel, or an operation "
        "with pyflame.ops.define",
        """
        BuildExtension CppExtension CUDAExtension SyclExtension load load_inline include_paths
        library_paths check_compiler_ok_for_platform get_compiler_abi_compatibility_and_version
        is_ninja_available verify_ninja_availability get_default_build_root
        """,
    ),
    "torch.nn.parallel.comm": (
        "copies among several devices are not there yet",
        "broadcast broadcast_coalesced reduce_add reduce_add_coalesced scatter gather",
    ),
}  # fmt: skip
# Of such modules what is no name to call: no compiler of PyTorch's was found.
_VALUES = {
    "torch.utils.cpp_extension": dict.fromkeys(("CUDA_HOME", "CUDNN_HOME", "ROCM_HOME"))
    | {"IS_HIP_EXTENSION": False}
}
_DEVICES = {"torch.mps": "MPS", "torch.mtia": "MTIA", "torch.xpu": "XPU"}


def module(path):
    """The module of such names at a path below torch, or below pyflame; or None."""
    known = "torch." + path.partition(".")[2]
    if path in _DEVICES:
        why, names = "there is no such device", no_device(path, _DEVICES[path])
    elif known in _MODULES:
        why, names = _MODULES[known]
        names = dict(zip(names.split(), map(absent(path, why), names.split())))
    else:
        return None
    made = types.ModuleType(path, f"{path}: {why}; the names are here.")
    vars(made).update(names, __getattr__=missing_from(path, why))
    vars(made).update(_VALUES.get(path, {}))
    return made
