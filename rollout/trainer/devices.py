"""How do several devices hold one model?

One process a device, as torchrun starts them; torch's FSDP gives each a shard of every weight,
gradient and optimiser state (Zhao et al. 2023, arXiv 2304.11277), and gathers a layer's weights
while it is used. One process alone needs none of it: then all here is the identity.

Run with one process, and with two gloo processes on a CPU; on GPUs not yet.
"""

import os
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor import DTensor, distribute_tensor


class Devices:
    """The processes that train together, and this one's place among them."""

    def __init__(self) -> None:
        """Join the process group that torchrun's environment describes, if there is one."""
        self.device = torch.device("cpu")
        if torch.cuda.is_available():
            self.device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
            torch.cuda.set_device(self.device)
        if int(os.environ.get("WORLD_SIZE", "1")) > 1 and not dist.is_initialized():
            dist.init_process_group("nccl" if self.device.type == "cuda" else "gloo")
        self.rank = dist.get_rank() if dist.is_initialized() else 0
        self.size = dist.get_world_size() if dist.is_initialized() else 1

    @property
    def is_first(self) -> bool:
        """Whether this process writes what all have made."""
        return self.rank == 0

    def spread(self, model: Any) -> Any:
        """Move a model to the device; with several, a shard of each layer to each."""
        model.to(self.device)
        if self.size > 1:
            from torch.distributed.device_mesh import init_device_mesh
            from torch.distributed.fsdp import fully_shard

            mesh = init_device_mesh(self.device.type, (self.size,))
            kinds = set(model._no_split_modules or ())  # names of the decoder layer's classes
            for module in list(model.modules()):
                if type(module).__name__ in kinds:
                    fully_shard(module, mesh=mesh)
            fully_shard(model, mesh=mesh)
        return model

    def total(self, values: Tensor) -> Tensor:
        """The sum over the processes."""
        return self._reduced(values, dist.ReduceOp.SUM)

    def largest(self, values: Tensor) -> Tensor:
        """The maximum over the processes."""
        return self._reduced(values, dist.ReduceOp.MAX)

    def wait(self) -> None:
        """Until every process is here."""
        if self.size > 1:
            dist.barrier()

    def _reduced(self, values: Tensor, operation: Any) -> Tensor:
        if self.size > 1:
            values = values.to(self.device)
            dist.all_reduce(values, operation)
        return values


def named_weights(model: Any) -> Iterator[tuple[str, Tensor]]:
    """Parameters and buffers that a checkpoint must hold; tied weights under one name only."""
    names = {name for name, _ in model.named_parameters()}
    tied = {name for name, _ in model.named_parameters(remove_duplicate=False)} - names
    yield from ((name, value) for name, value in model.state_dict().items() if name not in tied)


def whole(values: Tensor) -> Tensor:
    """A tensor on the CPU, gathered if it was sharded; then every process must ask for it."""
    full = values.full_tensor() if isinstance(values, DTensor) else values
    return full.detach().cpu().contiguous()


def put(target: Tensor, values: Tensor) -> None:
    """Copy a whole tensor into a perhaps sharded one."""
    target.copy_(like(target, values))


def like(target: Tensor, values: Tensor) -> Tensor:
    """A whole tensor, sharded as the other is."""
    values = values.to(target.device)
    if isinstance(target, DTensor):
        return distribute_tensor(values, target.device_mesh, target.placements)
    return values
