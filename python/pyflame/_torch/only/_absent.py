"""Names that programs import and use only where what they are about is there."""

from ... import _C, manual_seed


class _Absent(type):
    """The class of such names: none has objects, and calling one says why."""

    def __call__(cls, *args, **kwargs):
        raise _C.NotSupportedError(f"{cls.__module__}.{cls.__qualname__}: {cls.why}")


def absent(module, why):
    """A module's function that makes such names, and keeps them."""
    made = {}

    def name(text):
        if text not in made:
            made[text] = _Absent(
                text, (), {"__module__": module, "__doc__": f"Not there: {why}.", "why": why}
            )
        return made[text]

    return name


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
