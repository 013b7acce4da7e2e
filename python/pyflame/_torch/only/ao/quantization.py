"""torch.ao.quantization: quantization of models is not there yet; the names are here."""

from .._absent import absent as _absent

_needs = _absent("torch.ao.quantization", "quantization of models is not there yet")
globals().update((name, _needs(name)) for name in """
    QuantStub DeQuantStub QuantWrapper QConfig QConfigMapping FakeQuantize FakeQuantizeBase
    MinMaxObserver MovingAverageMinMaxObserver HistogramObserver ObserverBase PerChannelMinMaxObserver
    convert default_observer default_per_channel_weight_observer default_qat_qconfig default_qconfig
    default_weight_observer disable_fake_quant disable_observer enable_fake_quant enable_observer
    fuse_modules fuse_modules_qat get_default_qat_qconfig get_default_qat_qconfig_mapping
    get_default_qconfig get_default_qconfig_mapping prepare prepare_qat quantize quantize_dynamic
    quantize_qat
""".split())  # fmt: skip
