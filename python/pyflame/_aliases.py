"""Module paths of PyTorch whose contents live elsewhere here: made when somebody imports them.

`pyflame.nn.modules.linear` is no file: importing it finds the names in the modules of this table.
"""

import importlib
import importlib.machinery
import sys
import types

# path below pyflame: where its names are looked for, in this order.
MODULES = {
    "autograd.anomaly_mode": "autograd",
    "autograd.profiler": "profiler",
    "autograd.profiler_util": "profiler",
    "backends.cudnn.rnn": "backends.cudnn",
    "cpu.amp.autocast_mode": "cpu.amp",
    "cpu.amp.grad_scaler": "cpu.amp",
    "cuda.amp.autocast_mode": "cuda.amp",
    "cuda.amp.common": "cuda.amp",
    "cuda.amp.grad_scaler": "cuda.amp",
    "cuda.memory": "memory cuda",
    "cuda.streams": "streams",
    "functional": "",
    "fx._symbolic_trace": "fx.tracing",
    "nn.modules": "nn",
    "nn.modules.activation": "nn.activations nn.multihead",
    "nn.modules.adaptive": "nn.heads",
    "nn.modules.batchnorm": "nn.normalization nn.lazy",
    "nn.modules.channelshuffle": "nn.resampling",
    "nn.modules.container": "nn.containers",
    "nn.modules.conv": "nn.convolution nn.lazy",
    "nn.modules.distance": "nn.layers",
    "nn.modules.dropout": "nn.layers",
    "nn.modules.flatten": "nn.layers",
    "nn.modules.fold": "nn.resampling",
    "nn.modules.instancenorm": "nn.normalization nn.lazy",
    "nn.modules.lazy": "nn.lazy",
    "nn.modules.linear": "nn.layers nn.lazy",
    "nn.modules.linear_cross_entropy_options": "nn.heads",
    "nn.modules.loss": "nn.losses nn.heads",
    "nn.modules.module": "nn.module nn.module_state",
    "nn.modules.normalization": "nn.layers nn.normalization",
    "nn.modules.padding": "nn.padding",
    "nn.modules.pixelshuffle": "nn.resampling",
    "nn.modules.pooling": "nn.pooling",
    "nn.modules.rnn": "nn.recurrent nn.utils.rnn",
    "nn.modules.sparse": "nn.embedding",
    "nn.modules.transformer": "nn.transformer",
    "nn.modules.upsampling": "nn.resampling",
    "nn.modules.utils": "nn.sizes",
    "nn.parallel.data_parallel": "nn.parallel",
    "nn.parallel.distributed": "nn.parallel",
    "nn.parallel.parallel_apply": "nn.parallel",
    "nn.parallel.replicate": "nn.parallel",
    "nn.parallel.scatter_gather": "nn.parallel",
    "nn.utils.convert_parameters": "nn.utils.convert",
    "nn.utils.init": "nn.utils.convert",
    "nn.utils.memory_format": "nn.utils.convert",
    "nn.utils.spectral_norm": "nn.utils.weight_hooks",
    "nn.utils.weight_norm": "nn.utils.weight_hooks",
    "optim._adafactor": "optim.adafactor",
    "optim._muon": "optim.muon",
    "optim.adadelta": "optim.rules optim.functional",
    "optim.adam": "optim.adam_sgd optim.functional",
    "optim.adagrad": "optim.rules optim.functional",
    "optim.adamax": "optim.rules optim.functional",
    "optim.adamw": "optim.adam_sgd optim.functional",
    "optim.asgd": "optim.rules optim.functional",
    "optim.nadam": "optim.rules optim.functional",
    "optim.radam": "optim.rules optim.functional",
    "optim.rmsprop": "optim.rules optim.functional",
    "optim.rprop": "optim.rules optim.functional",
    "optim.sgd": "optim.adam_sgd optim.functional",
    "profiler.profiler": "profiler",
    "signal.windows.windows": "signal.windows",
    "utils.benchmark.utils": "utils.benchmark",
    "utils.benchmark.utils.common": "utils.benchmark",
    "utils.benchmark.utils.compare": "utils.benchmark",
    "utils.benchmark.utils.timer": "utils.benchmark",
    "utils.data._utils": "utils.data",
    "utils.tensorboard.writer": "utils.tensorboard",
    "utils.data._utils.collate": "utils.data.collate",
    "utils.data._utils.pin_memory": "utils.data.dataloader",
    "utils.data._utils.worker": "utils.data.workers",
}
# Each distribution has a module of its own there.
MODULES |= {
    f"distributions.{name}": "distributions"
    for name in (
        "bernoulli beta binomial categorical cauchy chi2 continuous_bernoulli dirichlet exp_family "
        "exponential fishersnedecor gamma generalized_pareto geometric gumbel half_cauchy "
        "half_normal independent inverse_gamma kumaraswamy laplace lkj_cholesky log_normal "
        "logistic_normal lowrank_multivariate_normal mixture_same_family multinomial "
        "multivariate_normal negative_binomial normal one_hot_categorical pareto poisson "
        "relaxed_bernoulli relaxed_categorical studentT transformed_distribution uniform von_mises "
        "weibull wishart"
    ).split()
}
MODULES["distributions.multivariate_normal"] = "distributions distributions.multivariate"
MODULES["distributions.relaxed_bernoulli"] = "distributions distributions.discrete"
MODULES["distributions.relaxed_categorical"] = "distributions distributions.discrete"
# Names of PyTorch's modules that are others here.
RENAMED = {
    "_DropoutNd": "nn.layers:Dropout",
    "_NormBase": "nn.normalization:_RunningNorm",
    "_ConvTransposeNd": "nn.convolution:_ConvTranspose",
    "_ConvTransposeMixin": "nn.convolution:_ConvTranspose",
    "_ConstantPadNd": "nn.padding:_ConstantPad",
    "_MaxPoolNd": "nn.pooling:_MaxPool",
    "_AvgPoolNd": "nn.pooling:_AvgPool",
    "_AdaptiveMaxPoolNd": "nn.pooling:_AdaptiveMax",
}


class _Alias(types.ModuleType):
    def __getattr__(self, name):
        if not name.startswith("__"):
            full = self.__name__.partition(".")[2]
            if f"{full}.{name}" in MODULES:  # first: nn has a utils too, and nn.modules another
                return importlib.import_module(f"{self.__name__}.{name}")
            for source in self.__dict__.get("_sources", ()):
                module = importlib.import_module(source)
                if name in vars(module) or name in getattr(module, "__all__", ()):
                    return getattr(module, name)
            if name in RENAMED:
                module, _, attribute = RENAMED[name].partition(":")
                return getattr(importlib.import_module("pyflame." + module), attribute)
        raise AttributeError(f"module '{self.__name__}' has no attribute '{name}'")

    def __dir__(self):
        names = set()
        for source in self._sources:
            module = importlib.import_module(source)
            names.update(getattr(module, "__all__", ()) or dir(module))
        return sorted(n for n in names if not n.startswith("_"))


class _Callable(_Alias):
    """The name of a function that stands in the same package: it stays callable when the module is
    imported, and takes its place."""

    def __call__(self, *args, **kwargs):
        return getattr(self, self.__name__.rpartition(".")[2])(*args, **kwargs)


_FUNCTIONS = ("data_parallel", "parallel_apply", "replicate", "spectral_norm", "weight_norm")


def _absent(name):
    """The module of names that only say why they are not there, or None."""
    return importlib.import_module("pyflame._torch.absent").module(name)


class _Finder:
    """Asked last, for what no file is."""

    @staticmethod
    def find_spec(fullname, path=None, target=None):
        package, _, rest = fullname.partition(".")
        if package != "pyflame":
            return None
        if rest.startswith("distributed."):
            if _absent(fullname):
                return importlib.machinery.ModuleSpec(fullname, _Finder, is_package=True)
            # Of the package, so that `from pyflame.distributed import name` says it, too.
            why = importlib.import_module("pyflame._torch.absent").SEVERAL
            raise ModuleNotFoundError(
                f"{fullname} is not in PyFlame; {why}", name="pyflame.distributed"
            )
        if rest not in MODULES:
            return None
        is_package = any(other.startswith(rest + ".") for other in MODULES)
        return importlib.machinery.ModuleSpec(fullname, _Finder, is_package=is_package)

    @staticmethod
    def create_module(spec):
        if spec.name.startswith("pyflame.distributed."):
            return _absent(spec.name)
        last = spec.name.rpartition(".")[2]
        module = (_Callable if last in _FUNCTIONS else _Alias)(spec.name)
        rest = spec.name.partition(".")[2]
        module._sources = [f"pyflame.{source}".rstrip(".") for source in MODULES[rest].split(" ")]
        return module

    @staticmethod
    def exec_module(module):
        if isinstance(module, _Callable):  # the function, before the module takes its place there
            last = module.__name__.rpartition(".")[2]
            for source in module._sources:
                value = vars(importlib.import_module(source)).get(last)
                if value is not None and not isinstance(value, types.ModuleType):
                    module.__dict__[last] = value
                    break


def install():
    sys.meta_path.append(_Finder)
