"""The recorded runs of the Fortran program: settings, data and output by name."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import amica_core as ac
import numpy as np

FOLDER = next(
    (
        p / "shared" / "golden"
        for p in Path(__file__).parents
        if (p / "shared").is_dir()
    ),
    Path("shared/golden"),
)

_BASE = {
    "num_models": 1,
    "num_mix_comps": 3,
    "pdftype": 0,
    "max_iter": 100,
}
_DENSITIES = [d.name.lower() for d in ac.Density]


def names() -> list[str]:
    if not FOLDER.is_dir():
        return []
    return sorted(json.loads((FOLDER / "manifest.json").read_text()))


def settings(name: str) -> dict[str, str]:
    lines = (FOLDER / name / "input.param").read_text().splitlines()
    return dict(line.split(None, 1) for line in lines if line.strip())


def samples(name: str) -> np.ndarray:
    keys = settings(name)
    path = FOLDER / "data" / Path(keys["files"]).name
    return np.fromfile(path, "<f4").reshape(-1, int(keys["data_dim"]))


_FILES = {
    "A": "A",
    "c": "c",
    "gm": "gm",
    "alpha": "alpha",
    "mu": "mu",
    "beta": "sbeta",
    "rho": "rho",
}


class Expected(NamedTuple):
    used: np.ndarray
    expected: np.ndarray


class Case:
    """One golden run, with what `amica_core.fit` needs to repeat it."""

    def __init__(self, name: str):
        self.name = name
        self.keys = settings(name)
        manifest = json.loads((FOLDER / "manifest.json").read_text())[name]
        self.n_iter = manifest["iterations"]
        self.init = manifest["init"]
        self.M, self.J = self.integer("num_models"), self.integer("num_mix_comps")

    def integer(self, key: str) -> int:
        return int(self.keys[key])

    def real(self, key: str) -> float:
        return float(self.keys[key])

    def flag(self, key: str) -> bool:
        return self.integer(key) != 0

    def load(self, name: str, *shape: int) -> np.ndarray:
        values = np.fromfile(FOLDER / self.name / name, "<f8")
        return values.reshape(shape, order="F") if shape else values

    def log_likelihood(self) -> np.ndarray:
        return self.load("LL")[: self.n_iter]

    def slots(self) -> np.ndarray:
        """Slots from 0; only the first half of the file is written."""
        values = np.fromfile(FOLDER / self.name / "comp_list", "<i4")
        values = values[: len(values) // 2] - 1
        return values.reshape(-1, self.M, order="F")

    @property
    def is_tame(self) -> bool:
        """Whether Fortran differs from itself by rounding alone."""
        return not self.flag("update_mu") or self.integer("pdftype") != 0

    def noise_course(self) -> np.ndarray:
        """Differences of two Fortran builds in every iteration."""
        noise = np.load(FOLDER / self.name / "LLdiff_mkl2.npy")
        return np.maximum.accumulate(noise[: self.n_iter])

    def parameters(self, model: ac.Model) -> dict[str, "Expected"]:
        """Fortran's values of the slots in use, by field of `Model`."""
        used = np.unique(model.slots)
        found = {}
        for field, file in _FILES.items():
            shape = getattr(model, field).shape
            values = self.load(file, *shape)
            by_slot = field not in ("c", "gm")
            columns = used if by_slot else np.arange(shape[-1])
            found[field] = Expected(columns, values[..., columns])
        return found

    def first_model(self, n: int) -> ac.Model | str:
        if self.init == "fix_init":
            return "fixed"
        folder = FOLDER / self.init
        model = ac.initial_model(n, self.M, self.J)
        return model._replace(
            A=np.fromfile(folder / "A").reshape(model.A.shape, order="F"),
            mu=np.fromfile(folder / "mu").reshape(model.mu.shape, order="F"),
            beta=np.fromfile(folder / "sbeta").reshape(model.mu.shape, order="F"),
        )

    def arguments(self) -> dict[str, Any]:
        fixed = {
            "update_A": "A",
            "update_c": "c",
            "update_gm": "gm",
            "update_alpha": "alpha",
            "update_mu": "mu",
            "update_beta": "beta",
            "do_rho": "rho",
        }
        sphering = "symmetric" if self.flag("do_approx_sphere") else "principal"
        n = min(self.integer("pcakeep"), self.integer("data_dim"))
        return dict(
            n_components=n,
            n_models=self.M,
            n_mixtures=self.J,
            density=_DENSITIES[self.integer("pdftype")],
            sphering=sphering if self.flag("do_sphere") else "diagonal",
            center=self.flag("do_mean"),
            max_iter=self.integer("max_iter"),
            learning_rate=ac.LearningRate(
                rate=self.real("lrate"),
                minimum=self.real("minlrate"),
                factor=self.real("lratefact"),
                ramp=self.integer("newt_ramp"),
                max_decreases=self.integer("max_decs"),
                shape_rate=self.real("rholrate"),
                shape_factor=self.real("rholratefact"),
            ),
            newton=ac.Newton(self.integer("newt_start"), self.real("newtrate"))
            if self.flag("do_newton")
            else False,
            stopping=ac.Stopping(
                min_change=self.real("min_dll") if self.flag("use_min_dll") else None,
                min_gradient=self.real("min_grad_norm")
                if self.flag("use_grad_norm")
                else None,
            ),
            rejection=ac.Rejection(
                start=self.integer("rejstart"),
                interval=self.integer("rejint"),
                rounds=self.integer("numrej"),
                threshold=self.real("rejsig"),
            )
            if self.flag("do_reject")
            else None,
            sharing=ac.Sharing(
                start=self.integer("share_start"),
                interval=self.integer("share_iter"),
                threshold=self.real("comp_thresh"),
            )
            if self.flag("share_comps")
            else None,
            bounds=ac.Bounds(
                beta=(self.real("invsigmin"), self.real("invsigmax")),
                rho=(self.real("minrho"), self.real("maxrho")),
            ),
            fixed=[field for key, field in fixed.items() if not self.flag(key)],
            rescale=self.flag("doscaling"),
            init=self.first_model(n),
            compatibility="fortran",
        )
