"""Names that programs import and use only where what they are about is there."""

from ... import _C


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


def no_device(module, kind):
    """A function that makes functions of a device's module, which raise DeviceError."""

    def name(text):
        def needs(*args, **kwargs):
            raise _C.DeviceError(
                f"{module}.{text}: there is no {kind} device in PyFlame; expected a GPU under "
                "torch.cuda, or the CPU; ask torch.accelerator which there is"
            )

        needs.__name__ = needs.__qualname__ = text
        needs.__doc__ = f"DeviceError: there is no {kind} device."
        return needs

    return name
