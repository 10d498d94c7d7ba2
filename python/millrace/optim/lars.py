"""LARS: SGD with momentum whose rate is adapted to each layer, for large batches.

    l = trust_coefficient |w| / (|g| + weight_decay |w|)       1 if a norm is zero, or not adapted
    v = momentum v + lr l (g + weight_decay w)                 lr_in_momentum=True
    w = w - v

A step with a NaN or infinite gradient changes nothing and is counted. On a GPU neither this nor the
norms make the host wait: trust ratios stay on the device. docs/design/optim.md says how.

The step is written twice. `_step_on_tensors` is for every device and dtype, and for torch.compile. The kernels of
_kernels.py replace it for float32 on one GPU, because a host cannot launch hundreds of small operations as fast as
a GPU does them: a version with torch's foreach functions took 2.4 times as long as SGD on an H200.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Optional, Union

import torch
from torch import Tensor
from torch.optim import Optimizer

try:
    from . import _kernels
except ImportError:  # no Triton
    _kernels = None  # type: ignore[assignment]


class LARS(Optimizer):
    """Layer-wise adaptive rate scaling.

    params: parameters, or groups of them. `parameter_groups(model)` makes the usual groups, in which
        biases and norm layers are not adapted.
    lr: the rate, after linear scaling; a number, or a tensor with one element.
    lr_in_momentum: True: the velocity contains the rate, as in the paper: v = m v + lr l (g + decay w),
        w -= v. False: w -= lr v, as in torch's SGD. They differ when the rate changes.
    clip: LARC: the rate of a layer is min(l, lr) instead of l lr, so LARS never exceeds lr.
    adapt: False: l = 1, which is SGD with momentum. For a group, give it in the group.
    maximize: ascend.

    Every option may differ between groups.
    """

    # GradScaler then hands over its scale and findings instead of waiting for them (torch 2.0).
    _step_supports_amp_scaling = hasattr(torch, "compile")
    grad_scale: Optional[Tensor]
    found_inf: Optional[Tensor]

    def __init__(self, params: Any, lr: Union[float, Tensor], momentum: float = 0.9,
                 weight_decay: float = 5e-4, trust_coefficient: float = 1e-3,
                 lr_in_momentum: bool = True, clip: bool = False, *, adapt: bool = True,
                 maximize: bool = False) -> None:
        if isinstance(params, Tensor):
            raise TypeError("params is one tensor; give a list of parameters, or parameter_groups(model)")
        params = list(params)
        if not params:
            raise ValueError("the list of parameters is empty; an iterator such as model.parameters() "
                             "can be used only once")
        self._skipped: dict[torch.device, Tensor] = {}  # steps, counted where their gradients are
        self._skipped_before = 0  # in the state that was loaded
        self._tables: dict[torch.device, Any] = {}  # of the kernels
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay,
                                  "trust_coefficient": trust_coefficient,
                                  "lr_in_momentum": bool(lr_in_momentum), "clip": bool(clip),
                                  "adapt": bool(adapt), "maximize": bool(maximize)})

    def add_param_group(self, param_group: dict) -> None:
        given = param_group["params"]
        param_group["params"] = [given] if isinstance(given, Tensor) else list(given)
        number = len(self.param_groups)
        if not param_group["params"]:
            raise ValueError(f"parameter group {number} is empty; leave it out")
        _check_options({**self.defaults, **param_group}, number)
        for place, each in enumerate(param_group["params"]):
            if isinstance(each, Tensor) and not each.is_floating_point():
                raise TypeError(f"parameter {place} of group {number} has dtype {each.dtype}; LARS takes "
                                "real floating-point parameters only. Use torch.view_as_real "
                                "for complex ones")
        super().add_param_group(param_group)

    @property
    def skipped_steps(self) -> int:
        """Steps that were left out because a gradient was NaN or infinite. Reading it waits for the
        GPU."""
        return self._skipped_before + sum(int(count) for count in self._skipped.values())

    @torch.no_grad()
    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:  # type: ignore[override]
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        groups = self._groups()
        if groups and not _step_by_kernels(self, groups):
            _step_on_tensors(self, groups)
        return loss

    def state_dict(self) -> dict:  # type: ignore[override]
        return {**super().state_dict(), "skipped_steps": self.skipped_steps}

    def load_state_dict(self, state_dict: dict) -> None:  # type: ignore[override]
        _check_shapes(state_dict, self.param_groups)
        super().load_state_dict(state_dict)
        self._skipped = {}
        self._skipped_before = int(state_dict.get("skipped_steps", 0))

    def __setstate__(self, state: dict) -> None:
        super().__setstate__(state)
        for name, value in (("_skipped", {}), ("_skipped_before", 0), ("_tables", {})):
            self.__dict__.setdefault(name, value)

    def _groups(self) -> list["_ParameterGroup"]:
        """The parameters with a gradient, by group, device and dtype."""
        groups: list[_ParameterGroup] = []
        for group in self.param_groups:
            w = [each for each in group["params"] if each.grad is not None]
            g = [each.grad for each in w]
            for each in g:
                if each.layout is not torch.strided:
                    raise RuntimeError(f"LARS needs dense gradients, but one of shape "
                                       f"{tuple(each.shape)} is {str(each.layout)[6:]}; make the "
                                       "embedding with sparse=False")
            groups.extend(_by_kind(_ParameterGroup(group, w, g, self._velocities(w))))
        return groups

    def _velocities(self, parameters: list[Tensor]) -> list[Tensor]:
        state = self.state
        try:
            return [state[each]["momentum_buffer"] for each in parameters]
        except KeyError:  # a first gradient
            for each in parameters:
                if "momentum_buffer" not in state[each]:
                    state[each]["momentum_buffer"] = torch.zeros_like(each)
            return [state[each]["momentum_buffer"] for each in parameters]

    def _skipped_on(self, device: torch.device) -> Tensor:
        if device not in self._skipped:
            self._skipped[device] = torch.zeros((), dtype=torch.int64, device=device)
        return self._skipped[device]


@dataclass
class _ParameterGroup:
    """Parameters that are updated together, their gradients and their velocities: a list of each."""

    options: dict[str, Any]
    w: list[Tensor]
    g: list[Tensor]
    v: list[Tensor]

    @property
    def device(self) -> torch.device:
        return self.w[0].device


def _by_kind(group: _ParameterGroup) -> list[_ParameterGroup]:
    """One group for each device and dtype."""
    if len({(each.device, each.dtype) for each in group.w}) == 1:
        return [group]
    parts: dict[tuple, _ParameterGroup] = {}
    for w, g, v in zip(group.w, group.g, group.v):
        part = parts.setdefault((w.device, w.dtype), _ParameterGroup(group.options, [], [], []))
        part.w.append(w)
        part.g.append(g)
        part.v.append(v)
    return list(parts.values())


def _is_compiling() -> bool:
    compiler = getattr(torch, "compiler", None)
    return compiler is not None and hasattr(compiler, "is_compiling") and compiler.is_compiling()


def _step_by_kernels(optimizer: LARS, groups: list[_ParameterGroup]) -> bool:
    """Two kernels for all parameters. The second one reads whether to skip. False: they cannot do it."""
    if not _can_use_kernels(groups):
        return False
    device = groups[0].device
    table = optimizer._tables.setdefault(device, _kernels.Table(device))
    with torch.cuda.device(device):  # Triton launches on the current one
        if not table.look(groups):
            return False
        table.step(groups, _unscale(optimizer, groups), optimizer._skipped_on(device))
    return True


def _can_use_kernels(groups: list[_ParameterGroup]) -> bool:
    device = groups[0].device
    return (_kernels is not None and device.type == "cuda" and all(each.device == device for each in groups)
            and not _is_compiling())


def _step_on_tensors(optimizer: LARS, groups: list[_ParameterGroup]) -> None:
    """In place and with plain numbers on the CPU, one parameter after another, which stays in the cache. Elsewhere,
    norms, ratios and whether to skip are tensors, and nobody waits for them."""
    norms, skips = _judge(optimizer, groups)
    is_read = not _is_compiling() and all(each.device.type == "cpu" for each in groups)
    if is_read and any(bool(skip) for skip in skips.values()):
        return
    for group, both in zip(groups, norms):
        options, skip = group.options, skips[group.device]
        into, onto = _rates(group, both)
        for w, g, v, rate in zip(group.w, group.g, group.v, into.tolist() if is_read else into.unbind()):
            velocity = v.mul_(options["momentum"]) if is_read else v * options["momentum"]
            _add(velocity, g, -rate if options["maximize"] else rate)
            if options["weight_decay"] != 0:
                _add(velocity, w, rate * options["weight_decay"])
            if is_read:
                w.add_(velocity, alpha=-float(onto))
            else:
                v.copy_(torch.where(skip, v, velocity))
                w.copy_(torch.where(skip, w, w - onto * velocity))


def _add(to: Tensor, values: Tensor, factor: Any) -> None:
    """A factor that is a number needs no memory for the product."""
    if isinstance(factor, Tensor):
        to.add_(values * factor)
    else:
        to.add_(values, alpha=factor)


def _kinds(groups: list[_ParameterGroup]) -> dict[tuple, list[int]]:
    """The numbers of the groups of each device and dtype."""
    kinds: dict[tuple, list[int]] = {}
    for number, group in enumerate(groups):
        kinds.setdefault((group.device, group.w[0].dtype), []).append(number)
    return kinds


_Norms = tuple[Tensor, Optional[Tensor]]  # of the gradients, and of the weights if they are adapted


def _judge(optimizer: LARS, groups: list[_ParameterGroup]) -> tuple[list[_Norms], dict[torch.device, Tensor]]:
    """The norms of each group; and on each device whether to skip the step."""
    found = _unscale(optimizer, groups)
    norms: dict[int, _Norms] = {}
    for places in _kinds(groups).values():
        # All in one kernel.
        lists = [groups[place].g for place in places]
        lists += [groups[place].w for place in places if groups[place].options["adapt"]]
        all_norms = _stacked_norms([each for part in lists for each in part])
        parts = all_norms.split([len(part) for part in lists])
        w_norms = iter(parts[len(places):])
        for place, g_norms in zip(places, parts):
            norms[place] = g_norms, next(w_norms) if groups[place].options["adapt"] else None
    home = groups[0].device
    # The sum is finite if and only if all gradients are, up to an overflow of their squares.
    findings = [~torch.isfinite(g_norms.sum()) for g_norms, _ in norms.values()]
    findings += [(each != 0).any() for each in found]
    skip = torch.stack([each.to(home, non_blocking=True) for each in findings]).any()
    optimizer._skipped_on(skip.device).add_(skip)
    return ([norms[place] for place in range(len(groups))],
            {each.device: skip.to(each.device, non_blocking=True) for each in groups})


def _rates(group: _ParameterGroup, norms: _Norms) -> tuple[Tensor, Any]:
    """What the direction of each parameter is multiplied by when it is added to the velocity; and the velocity of
    all when it is subtracted from the weights."""
    options = group.options
    g_norms, w_norms = norms
    lr = options["lr"].to(group.device) if isinstance(options["lr"], Tensor) else options["lr"]
    if w_norms is None:
        trust = torch.ones_like(g_norms)
    else:
        trust = options["trust_coefficient"] * w_norms / (g_norms + options["weight_decay"] * w_norms)
        trust = torch.where((w_norms != 0) & (g_norms != 0), trust, torch.ones_like(trust))
        if options["clip"]:
            trust = torch.nan_to_num(trust / lr, nan=1.0).clamp(max=1.0)  # 0 / 0: both are 0
    return (trust * lr, 1.0) if options["lr_in_momentum"] else (trust, lr)


def _stacked_norms(tensors: list[Tensor]) -> Tensor:
    """In float32 at least."""
    if tensors[0].dtype in (torch.float16, torch.bfloat16):
        return torch.stack([torch.linalg.vector_norm(each, dtype=torch.float32) for each in tensors])
    if tensors[0].is_cuda:
        return torch.stack(torch._foreach_norm(tensors))
    return torch.stack([_norm(each) for each in tensors])


def _norm(tensor: Tensor) -> Tensor:
    # Up to four times faster than vector_norm on a CPU, which does not hand it to BLAS.
    if tensor.device.type == "cpu" and tensor.is_contiguous() and not _is_compiling():
        flat = tensor.view(-1)
        return torch.dot(flat, flat).sqrt_()
    return torch.linalg.vector_norm(tensor)


def _unscale(optimizer: LARS, groups: list[_ParameterGroup]) -> list[Tensor]:
    """Divides by GradScaler's scale, if it has not done so. Returns what it and we found: a tensor per
    device that is not zero if a gradient is not finite."""
    scale, found = getattr(optimizer, "grad_scale", None), getattr(optimizer, "found_inf", None)
    findings = [] if found is None else [found]
    if scale is not None:
        for group in groups:
            inverse = scale.to(group.device, non_blocking=True).double().reciprocal().float()
            finding = torch.zeros(1, device=group.device)
            torch._amp_foreach_non_finite_check_and_unscale_(group.g, finding, inverse)
            findings.append(finding)
    return findings


# ---- what is refused ----


def _check_options(options: dict[str, Any], number: int) -> None:
    lr = options["lr"]
    if isinstance(lr, Tensor):
        if lr.numel() != 1:
            raise ValueError(f"lr of parameter group {number} has shape {tuple(lr.shape)}; it must be a "
                             "number, or a tensor with one element")
        options = {**options, "lr": 0.0}  # its value stays on its device
    for name, usual in (("lr", "0.1 * batch / 256"), ("momentum", "0.9"), ("weight_decay", "0.0005"),
                        ("trust_coefficient", "0.001")):
        value = options[name]
        if not isinstance(value, (int, float)) or not 0 <= value < math.inf:
            raise ValueError(f"{name} of parameter group {number} is {value!r}; it must be a number and "
                             f"not negative. {usual} is usual")


def _check_shapes(state: dict, groups: list[dict]) -> None:
    """torch compares only the number of parameters, and a wrong shape would fail in a later step."""
    saved = [place for group in state["param_groups"] for place in group["params"]]
    own = [each for group in groups for each in group["params"]]
    if len(saved) != len(own):
        return  # torch says so
    for number, (place, parameter) in enumerate(zip(saved, own)):
        velocity = state["state"].get(place, {}).get("momentum_buffer")
        if velocity is not None and velocity.shape != parameter.shape:
            raise ValueError(f"the state is of another model: its velocity of parameter {number} has "
                             f"shape {tuple(velocity.shape)}, the parameter {tuple(parameter.shape)}")
