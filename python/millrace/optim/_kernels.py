"""The step of LARS on a GPU: two kernels for all parameters. Needs Triton, which comes with torch for
CUDA.

foreach functions need ten calls and 300 small tensors, and the host takes four times as long as the
GPU. Here the host only hands over addresses. The first kernel sums the squares of chunks, the second
adds the sums of a parameter's chunks and updates it.
"""

import itertools
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

CHUNK = 16384  # numbers that one program handles
BLOCK = 2048   # of them, at a time
PARTS = 256    # sums that are added at a time


class Table:
    """Where the parameters, gradients and velocities are, and how they are divided into chunks."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._addresses: list[int] = []
        self._strides: list[tuple] = []
        self._sizes: list[int] = []
        self._is_usable = False

    def step(self, groups: list, found: list[Tensor], skipped: Tensor) -> None:
        """Adds 1 to `skipped` instead if a gradient, or one that was `found`, is not finite. REQUIRES:
        look() has returned True for these groups."""
        options = self._options(groups)
        norms_kernel[(self._chunks,)](self._pointers, self._tensors, self._owners, self._sums, self._chunks,
                                      CHUNK=CHUNK, BLOCK=BLOCK)
        # Finite if and only if all gradients are, up to an overflow of their squares.
        total = self._sums[1].sum(dim=0, keepdim=True)
        for each in found:
            total = total + torch.where(each != 0, torch.inf, 0.0)
        update_kernel[(self._chunks,)](self._pointers, self._tensors, self._owners, self._sums, self._chunks, total,
                                       options, skipped, CHUNK=CHUNK, BLOCK=BLOCK, PARTS=PARTS)

    def look(self, groups: list) -> bool:
        """Whether the kernels can update these."""
        triples = [each for group in groups for each in zip(group.w, group.g, group.v)]
        addresses = [each.data_ptr() for triple in triples for each in triple]
        strides = [each.stride() for triple in triples for each in triple]
        if addresses == self._addresses and strides == self._strides:
            return self._is_usable
        self._addresses, self._strides = addresses, strides
        self._is_usable = all(_is_plain(*triple) for triple in triples)
        if not self._is_usable:
            return False
        self._pointers = torch.tensor(addresses).to(self._device, non_blocking=True)
        sizes = [w.numel() for w, _, _ in triples]
        group_numbers = [number for number, group in enumerate(groups) for _ in group.w]
        if sizes + group_numbers != self._sizes:
            self._divide(sizes, group_numbers)
        return True

    def _divide(self, sizes: list[int], group_numbers: list[int]) -> None:
        self._sizes = sizes + group_numbers
        counts = [max(1, -(-size // CHUNK)) for size in sizes]
        firsts = [0, *itertools.accumulate(counts)][:-1]
        self._chunks = sum(counts)
        owners = torch.repeat_interleave(torch.arange(len(sizes), dtype=torch.int32), torch.tensor(counts))
        self._owners = owners.to(self._device, non_blocking=True)
        tensors = torch.tensor([sizes, firsts, counts, group_numbers]).t().contiguous()
        self._tensors = tensors.to(self._device, non_blocking=True)
        self._sums = torch.empty(2, self._chunks, device=self._device)  # of the squares of w and g

    def _options(self, groups: list) -> Tensor:
        """A row for each group: see update_kernel."""
        rows, tensors = [], []
        for number, group in enumerate(groups):
            options = group.options
            if isinstance(options["lr"], Tensor):
                tensors.append((number, options["lr"]))
            rows.append([0.0 if isinstance(options["lr"], Tensor) else options["lr"], options["momentum"],
                         options["weight_decay"], options["trust_coefficient"], options["lr_in_momentum"],
                         options["clip"], options["adapt"], -1.0 if options["maximize"] else 1.0])
        table = torch.tensor(rows, dtype=torch.float32).to(self._device, non_blocking=True)
        for number, rate in tensors:
            table[number, :1].copy_(rate.reshape(1), non_blocking=True)
        return table


def _is_plain(w: Tensor, g: Tensor, v: Tensor) -> bool:
    """float32 on one GPU, without gaps, and in the same order in memory."""
    is_dense = w.is_contiguous() or (w.dim() == 4 and w.is_contiguous(memory_format=torch.channels_last))
    return (is_dense and w.stride() == g.stride() == v.stride() and w.device == g.device == v.device
            and w.dtype == g.dtype == v.dtype == torch.float32)


@triton.jit
def norms_kernel(pointers, tensors, owners, sums, chunks, CHUNK: tl.constexpr, BLOCK: tl.constexpr) -> Any:
    chunk = tl.program_id(0)
    owner = tl.load(owners + chunk)
    size = tl.load(tensors + 4 * owner)
    begin = (chunk - tl.load(tensors + 4 * owner + 1)) * CHUNK
    w = tl.load(pointers + 3 * owner).to(tl.pointer_type(tl.float32))
    g = tl.load(pointers + 3 * owner + 1).to(tl.pointer_type(tl.float32))
    w_sum = tl.zeros([BLOCK], tl.float32)
    g_sum = tl.zeros([BLOCK], tl.float32)
    for at in range(0, CHUNK, BLOCK):
        place = begin + at + tl.arange(0, BLOCK)
        w_part = tl.load(w + place, mask=place < size, other=0.0)
        g_part = tl.load(g + place, mask=place < size, other=0.0)
        w_sum += w_part * w_part
        g_sum += g_part * g_part
    tl.store(sums + chunk, tl.sum(w_sum))
    tl.store(sums + chunks + chunk, tl.sum(g_sum))


@triton.jit
def update_kernel(pointers, tensors, owners, sums, chunks, total, table, skipped, CHUNK: tl.constexpr,
                  BLOCK: tl.constexpr, PARTS: tl.constexpr) -> Any:
    chunk = tl.program_id(0)
    if not tl.load(total) < float("inf"):
        if chunk == 0:
            tl.store(skipped, tl.load(skipped) + 1)
        return
    owner = tl.load(owners + chunk)
    size = tl.load(tensors + 4 * owner)
    first = tl.load(tensors + 4 * owner + 1)
    count = tl.load(tensors + 4 * owner + 2)
    row = table + 8 * tl.load(tensors + 4 * owner + 3)
    lr = tl.load(row)
    momentum = tl.load(row + 1)
    decay = tl.load(row + 2)
    is_in_momentum = tl.load(row + 4) != 0
    is_clipped = tl.load(row + 5) != 0
    is_adapted = tl.load(row + 6) != 0
    sign = tl.load(row + 7)

    w_sum = tl.zeros([PARTS], tl.float32)
    g_sum = tl.zeros([PARTS], tl.float32)
    for at in range(0, count, PARTS):
        part = at + tl.arange(0, PARTS)
        w_sum += tl.load(sums + first + part, mask=part < count, other=0.0)
        g_sum += tl.load(sums + chunks + first + part, mask=part < count, other=0.0)
    w_norm = tl.sqrt(tl.sum(w_sum))
    g_norm = tl.sqrt(tl.sum(g_sum))
    has_norms = is_adapted & (w_norm != 0) & (g_norm != 0)
    trust = tl.where(has_norms, tl.load(row + 3) * w_norm / (g_norm + decay * w_norm), 1.0)
    clipped = tl.where(lr > 0, tl.minimum(trust / tl.where(lr > 0, lr, 1.0), 1.0), 1.0)
    trust = tl.where(is_adapted & is_clipped, clipped, trust)
    into = tl.where(is_in_momentum, trust * lr, trust)
    onto = tl.where(is_in_momentum, 1.0, lr)

    w = tl.load(pointers + 3 * owner).to(tl.pointer_type(tl.float32))
    g = tl.load(pointers + 3 * owner + 1).to(tl.pointer_type(tl.float32))
    v = tl.load(pointers + 3 * owner + 2).to(tl.pointer_type(tl.float32))
    begin = (chunk - first) * CHUNK
    for at in range(0, CHUNK, BLOCK):
        place = begin + at + tl.arange(0, BLOCK)
        mask = place < size
        w_part = tl.load(w + place, mask=mask)
        g_part = tl.load(g + place, mask=mask)
        v_part = tl.load(v + place, mask=mask)
        velocity = momentum * v_part + into * (sign * g_part + decay * w_part)
        tl.store(v + place, velocity, mask=mask)
        tl.store(w + place, w_part - onto * velocity, mask=mask)
