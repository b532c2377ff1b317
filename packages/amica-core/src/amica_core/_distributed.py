"""Fits whose samples are spread over processes, joined by `torch.distributed`."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


class TorchGroup:
    """Processes of `torch.distributed` that fit one model together.

    Every process calls `fit` with the same arguments but its own samples; all of them
    get the same model, that of all samples, and `kept` for their own.

    Parameters
    ----------
    process_group
        A group of `torch.distributed`; None for the default one, which
        `torch.distributed.init_process_group` has made.

    Raises
    ------
    ImportError
        If torch is not installed.
    RuntimeError
        If there is no process group.

    Notes
    -----
    Only sums travel: one vector an iteration, of `(n + 6 J + 3) n M` numbers or so. A
    process that dies ends the fit in all others with a RuntimeError; one that hangs
    does so after the `timeout` of `init_process_group`.

    Examples
    --------
    In a script that `torchrun --nproc-per-node 2 script.py` starts::

        torch.distributed.init_process_group("gloo")
        group = amica_core.TorchGroup()
        X = np.load("recording.npy", mmap_mode="r")
        result = amica_core.fit(X[group.rank :: group.size], group=group)
    """

    def __init__(self, process_group: Any = None):
        try:
            import torch.distributed as distributed
        except ModuleNotFoundError as error:
            raise ImportError(
                "`TorchGroup` needs torch; install it with "
                '`pip install "amica-core[torch]"`'
            ) from error
        if not distributed.is_initialized():
            raise RuntimeError(
                "`TorchGroup` needs a process group; call "
                '`torch.distributed.init_process_group("gloo")` first'
            )
        self.process_group = process_group
        self.rank: int = distributed.get_rank(process_group)
        self.size: int = distributed.get_world_size(process_group)
        self._on_gpu = distributed.get_backend(process_group) == "nccl"

    def sum(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the elementwise sum over all processes, the same in each."""
        import torch

        total = torch.tensor(values, dtype=torch.float64)
        if self._on_gpu:
            total = total.cuda()
        try:
            torch.distributed.all_reduce(total, group=self.process_group)
        except RuntimeError as error:
            raise RuntimeError(
                f"process {self.rank} of {self.size} has lost the others: one has "
                "ended or hangs, and its own message says why; start all of them "
                "again (with `checkpoint` the fit goes on where it was)"
            ) from error
        return total.cpu().numpy()
