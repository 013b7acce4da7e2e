"""Models that come with PyFlame."""

from .gpt import GPT, GPTConfig
from .gpt2 import GPT2, GPT2Config
from .llama import Llama, LlamaConfig
from .resnet import ResNet, resnet18, resnet34, resnet50
from .tabular import TabularNet

__all__ = [
    "GPT",
    "GPT2",
    "GPT2Config",
    "GPTConfig",
    "Llama",
    "LlamaConfig",
    "ResNet",
    "TabularNet",
    "resnet18",
    "resnet34",
    "resnet50",
]
