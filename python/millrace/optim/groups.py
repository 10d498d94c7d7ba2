"""parameter_groups: which parameters LARS adapts, and which it treats like plain SGD."""

from collections.abc import Iterable
from typing import Any, Union

import torch
from torch import nn

_NORMS = (nn.modules.batchnorm._NormBase, nn.LayerNorm, nn.GroupNorm, nn.LocalResponseNorm)


def parameter_groups(of: Union[nn.Module, Iterable[torch.Tensor]], *,
                     by_dimension: bool = False) -> list[dict[str, Any]]:
    """At most two groups for LARS: the parameters that it adapts; and biases and parameters of norm
    layers, which get neither weight decay nor a rate of their own.

    of: a module, or parameters. Parameters without a module are distinguished by their dimensions.
    by_dimension: leave out every parameter of fewer than two dimensions, whatever it is called. It finds
        norm layers that are not torch's own.

    Parameters that need no gradient are left out. A shared parameter comes once.
    """
    if isinstance(of, torch.Tensor):
        raise TypeError("parameter_groups takes a module or several parameters, but got one tensor; "
                        "put it into a list")
    if isinstance(of, nn.Module):
        plain = _plain_by_dimension(of.parameters()) if by_dimension else _plain_by_name(of)
        parameters: list[torch.Tensor] = list(of.parameters())
    else:
        parameters = list(of)
        plain = _plain_by_dimension(parameters)
    trained = [each for each in parameters if each.requires_grad]
    if not trained:
        raise ValueError(f"{'the module' if isinstance(of, nn.Module) else 'the list'} has no parameter "
                         f"that needs a gradient ({len(parameters)} in all); make the groups after "
                         "the layers, and before freezing them")
    groups: list[dict[str, Any]] = [
        {"params": [each for each in trained if id(each) not in plain]},
        {"params": [each for each in trained if id(each) in plain], "weight_decay": 0.0, "adapt": False}]
    return [group for group in groups if group["params"]]


def _plain_by_dimension(parameters: Iterable[torch.Tensor]) -> set[int]:
    return {id(each) for each in parameters if each.dim() < 2}


def _plain_by_name(module: nn.Module) -> set[int]:
    """Parameters called `bias` or `..._bias` (nn.MultiheadAttention has in_proj_bias), and all of norm
    layers, found by their class or by a class name that ends in Norm, such as RMSNorm."""
    plain = set()
    for layer in module.modules():
        is_norm = isinstance(layer, _NORMS) or type(layer).__name__.rstrip("123d").endswith("Norm")
        for name, parameter in layer.named_parameters(recurse=False):
            if is_norm or name == "bias" or name.endswith("_bias") or name.startswith("bias_"):
                plain.add(id(parameter))
    return plain
