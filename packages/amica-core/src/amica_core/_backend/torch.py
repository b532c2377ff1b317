"""The torch backend: CPU, CUDA or MPS; float32 or float64; eager or compiled."""

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._check import check_choice, check_integer
from .._statistics import Density, Options, Parameters, Statistics
from .protocol import SampleSource

_TINY_POWER = 1e-16
# Blocks that fit a processor's cache, and that keep an accelerator busy.
_CPU_BLOCK, _DEVICE_BLOCK = 1024, 65536


class Backend:
    """Statistics with torch.

    Parameters
    ----------
    device
        `"cpu"`, `"cuda"` (or `"cuda:1"`, ...) or `"mps"`.
    dtype
        `"float64"`, or `"float32"`, whose sums over a block are right to about 1e-6.
        The MPS device has only float32.
    compile
        Whether `torch.compile` fuses the work on a block; the first iteration then
        takes up to a minute.
    block_size
        Samples of a block; None for a size that suits the device. The last block is
        filled up, so that only one shape is compiled.

    Raises
    ------
    ValueError
        If the device is not there or cannot compute in `dtype`.
    """

    def __init__(
        self,
        device: str = "cpu",
        dtype: Literal["float32", "float64"] = "float64",
        compile: bool = False,
        block_size: int | None = None,
    ):
        self.device = _check_device(device, check_choice("dtype", dtype, _DTYPES))
        self.dtype = torch.float64 if dtype == "float64" else torch.float32
        on_cpu = self.device.type == "cpu"
        self.block_size = _CPU_BLOCK if on_cpu else _DEVICE_BLOCK
        if block_size is not None:
            self.block_size = check_integer("block_size", block_size, 1)
        self.sums = torch.compile(_block_sums) if compile else _block_sums

    def place(self, samples: SampleSource) -> "list[Block] | _Stream":
        """Return blocks that are made one by one on a CPU, and kept on a device."""
        stream = _Stream(self, samples)
        return stream if self.device.type == "cpu" else [*iter(stream)]

    def move(self, values: NDArray) -> Tensor:
        """Return values on the device in the type of this backend."""
        return torch.as_tensor(values).to(self.device, self.dtype)

    def statistics(
        self,
        x: "Block | NDArray[np.float64]",
        parameters: Parameters,
        options: Options,
        kept: NDArray[np.bool_] | None = None,
    ) -> Statistics:
        """Return the sums over one block; see `amica_core._backend.protocol`."""
        block = x if isinstance(x, Block) else Block(self.move(x), len(x))
        weight = np.zeros(len(block.x))
        weight[: len(block)] = 1 if kept is None else kept
        model = _Model(*(self.move(p) for p in parameters[:-1]))
        codes = tuple(map(tuple, parameters.density.tolist()))
        with torch.no_grad():
            sums, joint = self.sums(
                block.x, self.move(weight), model, codes, options._replace(joint=False)
            )
            # One copy from the device for all sums.
            flat = torch.cat([s.reshape(-1) for s in sums.values()])
            values = flat.cpu().numpy().astype(np.float64)
        ends = np.cumsum([s.numel() for s in sums.values()])
        record: dict[str, Any] = {
            name: part.reshape(tuple(s.shape))
            for (name, s), part in zip(
                sums.items(), np.split(values, ends[:-1]), strict=True
            )
        }
        for name in ("log_likelihood", "log_likelihood_square"):
            record[name] = float(record[name])
        if options.joint:
            rows = joint[: len(block)].cpu().numpy().astype(np.float64)
            record["joint"] = rows if kept is None else rows * kept[:, None]
        return Statistics(count=float(weight.sum()), **record)


class Block(NamedTuple):
    """Samples on the device, filled up to the size of a block."""

    x: Tensor
    length: int

    def __len__(self) -> int:
        return self.length


class _Stream(NamedTuple):
    """Blocks that are sphered and moved when they are needed."""

    backend: Backend
    samples: SampleSource

    def __iter__(self) -> Iterator[Block]:
        size = self.backend.block_size
        for start in range(0, self.samples.n_samples, size):
            stop = min(start + size, self.samples.n_samples)
            x = self.samples.block(start, stop)
            if start > 0 and len(x) < size:
                x = np.concatenate([x, np.zeros((size - len(x), x.shape[1]))])
            yield Block(self.backend.move(x), stop - start)


class _Model(NamedTuple):
    """`Parameters` without the densities, on the device."""

    unmixing: Tensor
    offset: Tensor
    log_weight: Tensor
    log_scale: Tensor
    mu: Tensor
    beta: Tensor
    rho: Tensor


class _Terms(NamedTuple):
    """`amica_core._density.Terms` as tensors; `rho > 2` is already taken care of."""

    log_kernel: Tensor
    score: Tensor
    score_over_y: Tensor
    score_times_y: Tensor
    power_log_power: Tensor


def _block_sums(
    x: Tensor,
    weight: Tensor,
    model: _Model,
    codes: tuple[tuple[int, ...], ...],
    options: Options,
) -> tuple[dict[str, Tensor], Tensor]:
    """Return the sums by the names of `Statistics`, and the joint log-likelihood.

    `weight` is 1 for samples in use and 0 for others; nothing depends on values, so
    that the whole function compiles into few passes over the block.
    """
    views = []
    for h, code in enumerate(codes):
        b = model.unmixing[h] @ x.T - model.offset[h, :, None]  # (n, B)
        mu, beta, rho = (p[h, :, :, None] for p in (model.mu, model.beta, model.rho))
        y = beta * (b[:, None, :] - mu)  # (n, J, B)
        terms = _evaluate(code, y, rho, options.fortran)
        z = terms.log_kernel + model.log_scale[h, :, :, None]
        log_density = torch.logsumexp(z, dim=1, keepdim=True)
        r = torch.exp(z - log_density)
        joint = model.log_weight[h] + log_density.sum(dim=(0, 1))
        views.append((b, y, terms, r, joint))
    joint = torch.stack([v[-1] for v in views], dim=1)  # (B, M)
    total = torch.logsumexp(joint, dim=1)
    posterior = torch.exp(joint - total[:, None]) * weight[:, None]
    by_model = [
        _model_sums(x, posterior[:, h], model.beta[h], *view[:-1], options)
        for h, view in enumerate(views)
    ]
    total = total * weight
    sums = {
        "log_likelihood": total.sum(),
        "log_likelihood_square": (total**2).sum(),
        **{name: torch.stack([s[name] for s in by_model]) for name in by_model[0]},
    }
    return sums, joint


def _model_sums(
    x: Tensor,
    v: Tensor,
    beta: Tensor,
    b: Tensor,
    y: Tensor,
    terms: _Terms,
    r: Tensor,
    options: Options,
) -> dict[str, Tensor]:
    u = r * v
    uf = u * terms.score
    g = (beta[:, :, None] * uf).sum(dim=1)
    sums = {
        "posterior": v.sum(),
        "weighted_x": v @ x,
        "phi": g @ b.T,
        "mass": u.sum(dim=2),
        "score": uf.sum(dim=2),
        "score_over_y": (u * terms.score_over_y).sum(dim=2),
        "score_times_y": (u * terms.score_times_y).sum(dim=2),
        "power_log_power": (u * terms.power_log_power).sum(dim=2),
    }
    if options.newton or options.kurtosis:
        sums["square"] = b**2 @ v
    if options.newton:
        sums["score_square"] = (uf * terms.score).sum(dim=2)
        sums["score_deviation"] = (u * (terms.score * y - 1) ** 2).sum(dim=2)
    if options.kurtosis:
        sums["fourth"] = b**4 @ v
    return sums


def _evaluate(code: tuple[int, ...], y: Tensor, rho: Tensor, fortran: bool) -> _Terms:
    """Evaluate sources whose densities may be of several types."""
    kinds = sorted(set(code))
    if len(kinds) == 1:
        return _DENSITIES[Density(kinds[0])](y, rho, fortran)
    parts = {
        kind: _DENSITIES[Density(kind)](
            y[[i for i, c in enumerate(code) if c == kind]],
            rho[[i for i, c in enumerate(code) if c == kind]],
            fortran,
        )
        for kind in kinds
    }
    seen = dict.fromkeys(kinds, 0)
    rows = []
    for kind in code:
        rows.append(_Terms(*(t[seen[kind]] for t in parts[kind])))
        seen[kind] += 1
    return _Terms(*(torch.stack(column) for column in zip(*rows, strict=True)))


def _generalized_gaussian(y: Tensor, rho: Tensor, fortran: bool) -> _Terms:
    log_y = torch.log(torch.abs(y))
    power = torch.exp(rho * log_y)
    times_y = rho * power  # f y
    zero = y == 0
    divisor = torch.where(zero, 1.0, y)
    score = times_y / divisor
    over_y = score / divisor
    if fortran:
        # sign(0) = +1 makes the Laplacian's score 1; other shapes give 0/0.
        score = torch.where(zero & (rho == 1), 1.0, score)
        undefined = torch.where(rho == 1, torch.inf, torch.nan)
        over_y = torch.where(zero, undefined, over_y)
    else:
        over_y = torch.where(zero & (rho == 2), 2.0, over_y)
    power_log_power = torch.where(power < _TINY_POWER, 0.0, times_y * log_y)
    return _Terms(
        -power,
        score,
        torch.where(rho > 2, score**2, over_y),
        torch.where(rho > 2, power, times_y),
        power_log_power,
    )


def _gaussian(y: Tensor, rho: Tensor, fortran: bool) -> _Terms:
    return _without_shape(y, -0.5 * y**2, y, 1.0, fortran)


def _logistic(y: Tensor, rho: Tensor, fortran: bool) -> _Terms:
    return _without_shape(y, -2 * _log_cosh(y / 2), torch.tanh(y / 2), 0.5, fortran)


def _sub_gaussian(y: Tensor, rho: Tensor, fortran: bool) -> _Terms:
    log_kernel = -0.5 * y**2 + _log_cosh(y)
    return _without_shape(y, log_kernel, y - torch.tanh(y), 0.0, fortran)


def _super_gaussian(y: Tensor, rho: Tensor, fortran: bool) -> _Terms:
    log_kernel = -0.5 * y**2 - _log_cosh(y)
    return _without_shape(y, log_kernel, y + torch.tanh(y), 2.0, fortran)


def _without_shape(
    y: Tensor, log_kernel: Tensor, score: Tensor, slope: float, fortran: bool
) -> _Terms:
    zero = y == 0
    at_zero = torch.nan if fortran else slope
    over_y = torch.where(zero, at_zero, score / torch.where(zero, 1.0, y))
    return _Terms(log_kernel, score, over_y, score * y, torch.zeros_like(y))


def _log_cosh(y: Tensor) -> Tensor:
    magnitude = torch.abs(y)
    return magnitude + torch.log1p(torch.exp(-2 * magnitude)) - float(np.log(2.0))


_DENSITIES = {
    Density.GENERALIZED_GAUSSIAN: _generalized_gaussian,
    Density.SUPER_GAUSSIAN: _super_gaussian,
    Density.GAUSSIAN: _gaussian,
    Density.LOGISTIC: _logistic,
    Density.SUB_GAUSSIAN: _sub_gaussian,
}
_DTYPES = ("float32", "float64")


def _check_device(name: str, dtype: str) -> torch.device:
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, TypeError) as error:
        raise ValueError(
            f"`device` must be one that this torch can use, got {name!r}: {error}"
        ) from error
    if device.type == "mps" and dtype == "float64":
        raise ValueError('`dtype` must be "float32" on the MPS device, got "float64"')
    return device
