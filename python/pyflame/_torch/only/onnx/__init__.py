"""torch.onnx: models are not exported yet. The names are here, and export() says so."""

import enum as _enum

from .... import _C


class TrainingMode(_enum.IntEnum):
    """In which mode a model would be exported."""

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class OperatorExportTypes(_enum.IntEnum):
    """How operators would be exported."""

    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3


class OnnxExporterError(RuntimeError):
    """A model could not be exported."""


def export(model, args=(), f=None, **kwargs):
    """NotSupportedError: save the weights as safetensors and export with PyTorch."""
    raise _C.NotSupportedError(
        "torch.onnx.export: models are not exported yet; save the weights by "
        "pyflame.safetensors.save_model and export the same model with PyTorch"
    )


_export = dynamo_export = export


def is_in_onnx_export():
    """False."""
    return False


def register_custom_op_symbolic(symbolic_name, symbolic_fn, opset_version):
    """Accepted: nothing is exported."""


unregister_custom_op_symbolic = register_custom_op_symbolic
