"""Models for the lab, and the batch normalisation of many workers in one process."""

from typing import Any, Optional

import torch
from torch import nn

from millrace.lab._errors import LabError
from millrace.lab.datasets import Dataset


def mlp(dataset: Dataset, width: int = 128) -> nn.Module:
    """Two hidden layers with batch normalisation. Minutes on a CPU."""
    inputs = dataset.train[0].numel()
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, width, bias=False), nn.BatchNorm1d(width), nn.ReLU(),
                         nn.Linear(width, width // 2, bias=False), nn.BatchNorm1d(width // 2), nn.ReLU(),
                         nn.Linear(width // 2, dataset.class_count))


def mlp_layer_norm(dataset: Dataset, width: int = 128) -> nn.Module:
    """The same with layer normalisation, which has no statistics of the batch."""
    inputs = dataset.train[0].numel()
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, width), nn.LayerNorm(width), nn.ReLU(),
                         nn.Linear(width, width // 2), nn.LayerNorm(width // 2), nn.ReLU(),
                         nn.Linear(width // 2, dataset.class_count))


def _block(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU())


def convnet(dataset: Dataset, width: int = 16) -> nn.Module:
    """Three convolutions with batch normalisation."""
    return nn.Sequential(_block(_channels(dataset), width), nn.MaxPool2d(2), _block(width, 2 * width), nn.MaxPool2d(2),
                         _block(2 * width, 4 * width), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(4 * width, dataset.class_count))


class _Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(_block(width, width), _block(width, width))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs + self.body(inputs)


def resnet9(dataset: Dataset, width: int = 32) -> nn.Module:
    """A residual network of nine layers for small images. For a GPU."""
    return nn.Sequential(_block(_channels(dataset), width), _block(width, 2 * width), nn.MaxPool2d(2),
                         _Residual(2 * width), _block(2 * width, 4 * width), nn.MaxPool2d(2),
                         _block(4 * width, 8 * width), nn.MaxPool2d(2), _Residual(8 * width),
                         nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(8 * width, dataset.class_count),
                         _Scale(1 / 8))


class _Scale(nn.Module):
    """Multiplies. The largest features of images are large; unscaled, they make training with high rates diverge."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.factor * inputs


def _channels(dataset: Dataset) -> int:
    if len(dataset.shape) != 3:
        raise LabError(f"{dataset.name}: a convolutional network needs images, but samples have the shape "
                       f"{dataset.shape}: use --model mlp")
    return dataset.shape[0]


MODELS = {"mlp": mlp, "mlp-layer-norm": mlp_layer_norm, "convnet": convnet, "resnet9": resnet9}

_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


class WorkerNorm(nn.Module):
    """Batch normalisation of several workers at once, each with the statistics of its own samples.

    The batch has the samples of the workers in turns: row k * workers + w is sample k of worker w. So its
    memory is already a batch of k rows with workers * channels channels, and one ordinary batch
    normalisation of that computes all workers' statistics. 1,024 workers cost as much as one.

    The weights are shared, as in data parallelism. Every worker has running statistics of its own.
    """

    def __init__(self, norm: Any, workers: int) -> None:
        super().__init__()
        self.workers = workers
        self.eps = norm.eps
        self.momentum = norm.momentum
        self.channels = norm.num_features
        self.weight, self.bias = norm.weight, norm.bias
        for name in ("running_mean", "running_var"):
            self.register_buffer(name, getattr(norm, name).repeat(workers))
        self.evaluates_with: Optional[tuple] = None  # mean and variance

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        if not self.training:
            mean, variance = self.evaluates_with or self.statistics("mean")
            return nn.functional.batch_norm(inputs, mean, variance, self.weight, self.bias, False, 0.0, self.eps)
        rows = len(inputs) // self.workers
        wide = inputs.reshape(rows, self.workers * self.channels, *inputs.shape[2:])
        weight = None if self.weight is None else self.weight.repeat(self.workers)
        bias = None if self.bias is None else self.bias.repeat(self.workers)
        # cuDNN is made for thousands of channels, not for a quarter of a million.
        with torch.backends.cudnn.flags(enabled=False):
            normed = nn.functional.batch_norm(wide, self.running_mean, self.running_var, weight, bias, True,
                                              self.momentum, self.eps)
        return normed.view(inputs.shape)

    def statistics(self, which: str) -> tuple:
        """The running mean and variance to evaluate with: those of worker 0, or the mean over workers."""
        pair = [buffer.view(self.workers, self.channels) for buffer in (self.running_mean, self.running_var)]
        return tuple(each[0] if which == "first" else each.mean(0) for each in pair)


def for_workers(model: nn.Module, workers: int) -> nn.Module:
    """The model with its batch normalisation replaced by that of several workers."""
    for name, child in model.named_children():
        if isinstance(child, nn.SyncBatchNorm):
            raise LabError("the model has synchronised batch normalisation, whose statistics do not depend on the "
                           "shards: give a model with ordinary batch normalisation")
        if isinstance(child, _NORMS):
            if not child.track_running_stats or child.momentum is None:
                raise LabError(f"the batch normalisation '{name}' keeps no running statistics, or their plain "
                               "average: make it with track_running_stats=True and a momentum")
            setattr(model, name, WorkerNorm(child, workers))
        else:
            for_workers(child, workers)
    return model


def worker_norms(model: nn.Module) -> list:
    return [module for module in model.modules() if isinstance(module, WorkerNorm)]
