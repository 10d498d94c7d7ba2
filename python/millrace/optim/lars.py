"""LARS: SGD with momentum whose rate is adapted to each layer, for large batches.

    l = trust_coefficient |w| / (|g| + weight_decay |w|)       1 if a norm is zero, or not adapted
    v = momentum v + lr l (g + weight_decay w)                 lr_in_momentum=True
    w = w - v

A step with a NaN or infinite gradient changes nothing and is counted. On a GPU neither this nor the
norms make the host wait: trust ratios stay on the device. docs/design/optim.md says how.
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
        self._skipped_before = 0  # in the state that was loaded, and on the CPU
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
        batches = self._batches()
        if batches:
            step = _choose(batches)
            step(self, batches)
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

    def _batches(self) -> list["_Batch"]:
        """The parameters with a gradient, by group, device and dtype."""
        batches: list[_Batch] = []
        for group in self.param_groups:
            w = [each for each in group["params"] if each.grad is not None]
            g = [each.grad for each in w]
            for each in g:
                if each.layout is not torch.strided:
                    raise RuntimeError(f"LARS needs dense gradients, but one of shape "
                                       f"{tuple(each.shape)} is {str(each.layout)[6:]}; make the "
                                       "embedding with sparse=False")
            batches.extend(_by_kind(_Batch(group, w, g, self._velocities(w))))
        return batches

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
class _Batch:
    """Parameters that are updated together, their gradients and their velocities: a list of each."""

    group: dict[str, Any]
    w: list[Tensor]
    g: list[Tensor]
    v: list[Tensor]

    @property
    def device(self) -> torch.device:
        return self.w[0].device


def _by_kind(batch: _Batch) -> list[_Batch]:
    """One batch for each device and dtype."""
    if not batch.w:
        return []
    if len({each.device for each in batch.w}) == 1 and len({each.dtype for each in batch.w}) == 1:
        return [batch]
    parts: dict[tuple, _Batch] = {}
    for w, g, v in zip(batch.w, batch.g, batch.v):
        part = parts.setdefault((w.device, w.dtype), _Batch(batch.group, [], [], []))
        part.w.append(w)
        part.g.append(g)
        part.v.append(v)
    return list(parts.values())


def _choose(batches: list[_Batch]) -> Callable[[LARS, list[_Batch]], None]:
    if _is_compiling():
        return _step_on_tensors
    devices = {batch.device for batch in batches}
    if {device.type for device in devices} == {"cpu"}:
        return _step_on_host
    is_one_gpu = len(devices) == 1 and batches[0].device.type == "cuda"
    return _step_by_kernels if is_one_gpu and _kernels is not None else _step_on_tensors


def _is_compiling() -> bool:
    compiler = getattr(torch, "compiler", None)
    return compiler is not None and hasattr(compiler, "is_compiling") and compiler.is_compiling()


# ---- on the CPU: plain numbers, and one parameter after another, which stays in the cache ----


def _step_on_host(optimizer: LARS, batches: list[_Batch]) -> None:
    found = _unscale(optimizer, batches)
    g_norms = [_stacked_norms(batch.g).tolist() for batch in batches]
    is_finite = all(math.isfinite(norm) for norms in g_norms for norm in norms)
    if not is_finite or any(bool(each) for each in found):
        optimizer._skipped_before += 1
        return
    for batch, norms in zip(batches, g_norms):
        group = batch.group
        decay, sign = float(group["weight_decay"]), -1.0 if group["maximize"] else 1.0
        w_norms = _stacked_norms(batch.w).tolist() if group["adapt"] else norms
        for w, g, v, w_norm, g_norm in zip(batch.w, batch.g, batch.v, w_norms, norms):
            into, onto = _host_rates(group, w_norm, g_norm)
            v.mul_(group["momentum"]).add_(g, alpha=sign * into)
            if decay != 0:
                v.add_(w, alpha=into * decay)
            w.add_(v, alpha=-onto)


def _host_rates(group: dict[str, Any], w_norm: float, g_norm: float) -> tuple[float, float]:
    """What the direction is multiplied by when it is added to the velocity, and the velocity when it
    is subtracted from the weights."""
    lr, trust = float(group["lr"]), 1.0
    if group["adapt"] and w_norm != 0 and g_norm != 0:
        trust = group["trust_coefficient"] * w_norm / (g_norm + group["weight_decay"] * w_norm)
    if group["adapt"] and group["clip"]:
        trust = min(trust / lr, 1.0) if lr > 0 else 1.0
    return (trust * lr, 1.0) if group["lr_in_momentum"] else (trust, lr)


# ---- elsewhere: norms, ratios and whether to skip are tensors, and nobody waits for them ----


def _step_by_kernels(optimizer: LARS, batches: list[_Batch]) -> None:
    """Two kernels for all parameters. The second one reads whether to skip."""
    device = batches[0].device
    if device not in optimizer._tables:
        optimizer._tables[device] = _kernels.Table(device)
    table = optimizer._tables[device]
    with torch.cuda.device(device):  # Triton launches on the current one
        if table.look(batches):
            table.step(batches, _unscale(optimizer, batches), optimizer._skipped_on(device))
            return
    _step_on_tensors(optimizer, batches)


def _step_on_tensors(optimizer: LARS, batches: list[_Batch]) -> None:
    """For torch.compile, which fuses it, and for what the kernels cannot do: other dtypes, several devices,
    no Triton."""
    norms, skips = _judge(optimizer, batches)
    for batch, both in zip(batches, norms):
        group, skip = batch.group, skips[batch.device]
        into, onto = _device_rates(batch, both)
        for w, g, v, rate in zip(batch.w, batch.g, batch.v, into.unbind()):
            direction = (-g if group["maximize"] else g) + group["weight_decay"] * w
            velocity = group["momentum"] * v + rate * direction
            v.copy_(torch.where(skip, v, velocity))
            w.copy_(torch.where(skip, w, w - onto * velocity))


def _kinds(batches: list[_Batch]) -> dict[tuple, list[int]]:
    """The numbers of the batches of each device and dtype."""
    kinds: dict[tuple, list[int]] = {}
    for number, batch in enumerate(batches):
        kinds.setdefault((batch.device, batch.w[0].dtype), []).append(number)
    return kinds


_Norms = tuple[Tensor, Optional[Tensor]]  # of the gradients, and of the weights if they are adapted


def _judge(optimizer: LARS, batches: list[_Batch]) -> tuple[list[_Norms], dict[torch.device, Tensor]]:
    """The norms of each batch; and on each device whether to skip the step."""
    found = _unscale(optimizer, batches)
    norms: dict[int, _Norms] = {}
    for places in _kinds(batches).values():
        # All in one kernel.
        lists = [batches[place].g for place in places]
        lists += [batches[place].w for place in places if batches[place].group["adapt"]]
        all_norms = _stacked_norms([each for part in lists for each in part])
        parts = all_norms.split([len(part) for part in lists])
        w_norms = iter(parts[len(places):])
        for place, g_norms in zip(places, parts):
            norms[place] = g_norms, next(w_norms) if batches[place].group["adapt"] else None
    home = batches[0].device
    # The sum is finite if and only if all gradients are, up to an overflow of their squares.
    findings = [~torch.isfinite(g_norms.sum()) for g_norms, _ in norms.values()]
    findings += [(each != 0).any() for each in found]
    skip = torch.stack([each.to(home, non_blocking=True) for each in findings]).any()
    optimizer._skipped_on(skip.device).add_(skip)
    return ([norms[place] for place in range(len(batches))],
            {batch.device: skip.to(batch.device, non_blocking=True) for batch in batches})


def _device_rates(batch: _Batch, norms: _Norms) -> tuple[Tensor, Any]:
    """Like _host_rates, but of all parameters of a batch: a vector, and a number or tensor."""
    group = batch.group
    g_norms, w_norms = norms
    lr = group["lr"].to(batch.device) if isinstance(group["lr"], Tensor) else group["lr"]
    if w_norms is None:
        trust = torch.ones_like(g_norms)
    else:
        trust = group["trust_coefficient"] * w_norms / (g_norms + group["weight_decay"] * w_norms)
        trust = torch.where((w_norms != 0) & (g_norms != 0), trust, torch.ones_like(trust))
        if group["clip"]:
            trust = torch.nan_to_num(trust / lr, nan=1.0).clamp(max=1.0)  # 0 / 0: both are 0
    return (trust * lr, 1.0) if group["lr_in_momentum"] else (trust, lr)


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


def _unscale(optimizer: LARS, batches: list[_Batch]) -> list[Tensor]:
    """Divides by GradScaler's scale, if it has not done so. Returns what it and we found: a tensor per
    device that is not zero if a gradient is not finite."""
    scale, found = getattr(optimizer, "grad_scale", None), getattr(optimizer, "found_inf", None)
    findings = [] if found is None else [found]
    if scale is not None:
        for batch in batches:
            inverse = scale.to(batch.device, non_blocking=True).double().reciprocal().float()
            finding = torch.zeros(1, device=batch.device)
            torch._amp_foreach_non_finite_check_and_unscale_(batch.g, finding, inverse)
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
