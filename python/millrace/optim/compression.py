"""GradientCompression: ranks send only the largest of their gradients, and keep the rest for later.

    compression = GradientCompression(momentum=0.9, warmup_steps=5 * len(loader))
    optimizer = LARS(parameter_groups(model), lr=lr, momentum=0)
    model = DistributedDataParallel(model)
    compression.register(model, optimizer)
    ...
    print(compression.report())      # sent 0.42 MB in 100 steps, 0.2% of the 204 MB of dense gradients

Deep gradient compression: top 0.1 %, momentum correction, local clipping, momentum factor masking and a
warm-up of the sparsity. docs/design/optim.md says what differs from the paper.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Optional

import torch
import torch.distributed as dist
from torch import Tensor
from torch.optim import Optimizer

WARMUP = (0.75, 0.9375, 0.984375, 0.996)
_SAMPLED_MIN = 1 << 16  # smaller tensors are not worth a guess


class GradientCompression:
    """The state of a communication hook of DistributedDataParallel, and the hook.

    sparsity: the part of each parameter that is not sent, 0.999 by default.
    momentum: of SGD. It is applied here, before values are selected; the optimizer must have none.
    clip_norm: clips the gradient of each parameter to this norm / sqrt(ranks), before it is added to
        what was not sent yet. None: not.
    warmup_steps: steps in which the sparsity rises through `warmup`, a list of sparsities.
    process_group: that of DistributedDataParallel; None: the default one.

    Parameters of fewer than two dimensions (biases, norm layers) are sent whole, as published. Every
    rank has its own state: save `state_dict()` on every rank. Not for GradScaler, whose changing scale
    would mix with what is kept; bfloat16 needs none.
    """

    def __init__(self, *, sparsity: float = 0.999, momentum: float = 0.9,
                 clip_norm: Optional[float] = None, warmup_steps: int = 0,
                 warmup: Sequence[float] = WARMUP, process_group: Any = None) -> None:
        for each in (sparsity, *warmup):
            if not 0 <= each < 1:
                raise ValueError(f"a sparsity is {each}; it is the part that is not sent, from 0 to less "
                                 "than 1. 0.999 is usual")
        if not 0 <= momentum < 1:
            raise ValueError(f"momentum is {momentum}; it must be from 0 to less than 1. 0.9 is usual")
        if clip_norm is not None and not clip_norm > 0:
            raise ValueError(f"clip_norm is {clip_norm}; it must be positive, or None")
        if warmup_steps < 0 or (warmup_steps > 0 and not warmup):
            raise ValueError(f"warmup_steps is {warmup_steps} with {len(warmup)} sparsities; give at least one "
                             "of each, or warmup_steps=0")
        self._final, self._warmup, self._warmup_steps = sparsity, tuple(warmup), warmup_steps
        self._momentum, self._clip_norm = momentum, clip_norm
        self.process_group = process_group
        self._kept: dict[str, _Kept] = {}
        self._names: dict[int, str] = {}  # by id of the parameter
        self.steps = 0
        self.bytes_sent = 0   # by this rank: what it contributes to the collectives
        self.dense_bytes = 0  # what it would contribute to an all-reduce of whole gradients

    def register(self, model: Any, optimizer: Optional[Optimizer] = None) -> None:
        """Makes a DistributedDataParallel model use the hook. `optimizer`: to check its momentum."""
        if not hasattr(model, "register_comm_hook"):
            raise TypeError(f"a {type(model).__name__} has no communication hooks; wrap the model in "
                            "DistributedDataParallel first")
        for number, group in enumerate(optimizer.param_groups if optimizer is not None else ()):
            if group.get("momentum", 0) != 0:
                raise ValueError(f"parameter group {number} of the optimizer has momentum "
                                 f"{group['momentum']}, and so would be accelerated twice; the "
                                 "compression applies the momentum: make the optimizer with momentum=0")
        self._names = {id(each): name for name, each in model.module.named_parameters()}
        model.register_comm_hook(self, GradientCompression.hook)

    @property
    def sparsity(self) -> float:
        """In the current step."""
        if self.steps >= self._warmup_steps:
            return self._final
        return self._warmup[self.steps * len(self._warmup) // self._warmup_steps]

    def report(self) -> str:
        if self.dense_bytes == 0:
            return "nothing was sent"
        return (f"sent {self.bytes_sent / 1e6:,.2f} MB in {self.steps} steps, "
                f"{self.bytes_sent / self.dense_bytes:.2%} of the {self.dense_bytes / 1e6:,.2f} MB of dense "
                "gradients")

    def compress(self, name: str, gradient: Tensor, ranks: int = 1) -> tuple[Tensor, Tensor]:
        """Adds a gradient to what is kept of parameter `name`. Returns the flat positions and the values
        to send, which are then no longer kept. If the gradient is not finite, what is kept stays as it is,
        and the values are NaN: the optimizers of all ranks then skip the step. What other ranks sent in it
        is lost."""
        velocity, is_finite = self._add(name, gradient.reshape(-1), ranks)
        kept = self._kept[name]
        if kept.residual is None:
            kept.residual = torch.zeros_like(velocity)
        residual = kept.residual = kept.residual.to(velocity.device)
        residual.addcmul_(velocity, is_finite.to(velocity.dtype))
        # Rounded first: 1000 * (1 - 0.99) is a little more than 10.
        count = max(1, math.ceil(round(residual.numel() * (1 - self.sparsity), 6)))
        positions = _largest(residual, count)
        values = residual[positions]
        residual[positions] = values.masked_fill(is_finite, 0)
        # Masks the momentum too: it would carry a direction that was sent.
        velocity[positions] = velocity[positions].masked_fill(is_finite, 0)
        return positions, values.masked_fill_(~is_finite, math.nan)

    def whole(self, name: str, gradient: Tensor, ranks: int = 1) -> Tensor:
        """The same for a parameter that is sent whole: only momentum and clipping."""
        velocity, is_finite = self._add(name, gradient.reshape(-1), ranks)
        return velocity.clone().masked_fill_(~is_finite, math.nan)

    def end_step(self) -> None:
        """After the last parameter of a step; the hook calls it."""
        self.steps += 1

    # Without annotations: DistributedDataParallel compares them, and GradBucket is not in every torch.
    def hook(self, bucket):  # type: ignore[no-untyped-def]
        """Called by DistributedDataParallel with each bucket. Returns a future of the averaged bucket.
        Waits for the other ranks: the message is small, so little overlap with the backward pass is
        lost. With NCCL, only the stream waits."""
        group = self.process_group
        ranks = dist.get_world_size(group)
        buffer = bucket.buffer()
        self._exchange(buffer, bucket.parameters(), bucket.gradients(), group, ranks)
        self.dense_bytes += buffer.numel() * buffer.element_size()
        if bucket.is_last():
            self.end_step()
        # With its device, the future makes the stream that waits for it wait for ours too.
        future = torch.futures.Future(devices=[buffer.device] if buffer.is_cuda else None)
        future.set_result(buffer)
        return future

    def state_dict(self) -> dict:
        """The state of this rank; each rank has its own."""
        return {"steps": self.steps, "bytes_sent": self.bytes_sent, "dense_bytes": self.dense_bytes,
                "kept": {name: {"velocity": kept.velocity, "residual": kept.residual}
                         for name, kept in self._kept.items()}}

    def load_state_dict(self, state: dict) -> None:
        if "kept" not in state:
            raise ValueError("the state has no 'kept': it is not that of a GradientCompression")
        self.steps, self.bytes_sent = state["steps"], state["bytes_sent"]
        self.dense_bytes = state["dense_bytes"]
        self._kept = {name: _Kept(kept["velocity"].clone(),
                                  None if kept["residual"] is None else kept["residual"].clone())
                      for name, kept in state["kept"].items()}

    def _add(self, name: str, gradient: Tensor, ranks: int) -> tuple[Tensor, Tensor]:
        """Clips the gradient and adds it to the velocity, in float32. Returns the velocity, and whether
        the gradient was finite."""
        kept = self._kept.get(name)
        if kept is None:
            kept = self._kept[name] = _Kept(torch.zeros_like(gradient, dtype=torch.float32), None)
        if kept.velocity.numel() != gradient.numel():
            raise ValueError(f"the gradient of {name} has {gradient.numel()} numbers, but what is kept of it "
                             f"has {kept.velocity.numel()}: the state is of another model")
        kept.velocity, gradient = kept.velocity.to(gradient.device), gradient.float()
        norm = torch.linalg.vector_norm(gradient)
        is_finite = torch.isfinite(norm)
        if self._clip_norm is not None:
            limit = self._clip_norm / math.sqrt(ranks)
            gradient = gradient * (limit / norm.clamp(min=limit))
        gradient = torch.where(is_finite, gradient, torch.zeros_like(gradient))
        # In float64, so that it is rounded as a number of Python is. A tensor without dimensions changes no type.
        decay = is_finite.to(torch.float64) * (self._momentum - 1) + 1
        kept.velocity.mul_(decay).add_(gradient)
        return kept.velocity, is_finite

    def _exchange(self, buffer: Tensor, parameters: list, gradients: list, group: Any, ranks: int) -> None:
        """Replaces the bucket by the average of what all ranks send."""
        positions, values, whole = [], [], []
        for parameter, gradient in zip(parameters, gradients):
            name = self._name_of(parameter)
            begin = gradient.storage_offset() - buffer.storage_offset()
            flat = buffer[begin:begin + gradient.numel()]  # in the order of memory, also channels last
            if parameter.dim() < 2:
                whole.append((flat, self.whole(name, flat, ranks)))
            else:
                places, chosen = self.compress(name, flat, ranks)
                positions.append((places + begin).to(torch.int32))
                values.append(chosen.to(buffer.dtype))
        buffer.zero_()
        if positions:
            self._gather(buffer, torch.cat(positions), torch.cat(values), group, ranks)
        if whole:
            self._reduce(whole, buffer.dtype, group)
        buffer.div_(ranks)

    def _gather(self, buffer: Tensor, positions: Tensor, values: Tensor, group: Any, ranks: int) -> None:
        # One message of bytes, because each collective has its own latency.
        message = torch.cat([positions.view(torch.uint8), values.view(torch.uint8)])
        messages = [torch.empty_like(message) for _ in range(ranks)]
        dist.all_gather(messages, message, group=group)
        self.bytes_sent += message.numel()
        split = positions.numel() * 4
        # Rank by rank, so that all ranks add in the same order and get the same bits.
        for each in messages:
            buffer.index_add_(0, each[:split].view(torch.int32), each[split:].clone().view(values.dtype))

    def _reduce(self, whole: list, dtype: torch.dtype, group: Any) -> None:
        message = torch.cat([velocity for _, velocity in whole]).to(dtype)
        dist.all_reduce(message, group=group)
        self.bytes_sent += message.numel() * message.element_size()
        begin = 0
        for flat, velocity in whole:
            flat.copy_(message[begin:begin + velocity.numel()])
            begin += velocity.numel()

    def _name_of(self, parameter: Tensor) -> str:
        name = self._names.get(id(parameter))
        if name is None:
            raise RuntimeError(f"a parameter of shape {tuple(parameter.shape)} is not one of the model that "
                               "the compression was registered with; call register(model), not "
                               "model.register_comm_hook()")
        return name


@dataclass
class _Kept:
    velocity: Tensor
    residual: Optional[Tensor]  # None: the parameter is sent whole


def _largest(values: Tensor, count: int) -> Tensor:
    """The positions of the `count` values of the largest magnitude, in any order."""
    magnitudes = values.abs()
    if not values.is_cuda and values.numel() >= _SAMPLED_MIN and count * 8 < values.numel():
        # On a CPU, sorting all is slow. A threshold from a sample leaves few candidates; if they are
        # enough, the largest of all are among them.
        sample = magnitudes[::max(1, values.numel() // (_SAMPLED_MIN // 4))]
        kept = min(sample.numel(), max(8, 2 * math.ceil(sample.numel() * count / values.numel())))
        threshold = sample.topk(kept).values[-1]
        candidates = torch.nonzero(magnitudes >= threshold).reshape(-1)
        if candidates.numel() >= count:
            return candidates[magnitudes[candidates].topk(count, sorted=False).indices]
    return magnitudes.topk(count, sorted=False).indices
