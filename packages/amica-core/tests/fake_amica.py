#!/usr/bin/env python3
"""A stand-in for the Fortran program, for tests of the adapter that drives it.

It reads its parameter file in the program's fixed columns, the samples and first values
from raw files, and writes the output directory number by number. `FAKE_AMICA` in the
environment says how it misbehaves.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

REALS = set(
    "min_grad_norm min_dll comp_thresh invsigmax invsigmin lrate lratefact rholrate "
    "newtrate rholratefact rho0 minrho maxrho rejsig".split()
)
SCIENTIFIC = {"mineig", "minlrate"}
TEXTS = {"files", "outdir", "indir"}


def real(field, digits):
    field = field[:15].replace(" ", "").lower().replace("d", "e")
    mantissa, _, exponent = field.partition("e")
    whole, point, fraction = mantissa.partition(".")
    power = int(exponent or 0) - (len(fraction) if point else digits)
    return float(f"{whole}{fraction}e{power}")


def read(path):
    values = {}
    for line in open(path):
        line = line.rstrip("\n")[:500].lstrip()
        if not line or line[0] == "#" or " " not in line:
            continue
        key, _, field = line.partition(" ")
        field = field.lstrip()
        if key in TEXTS:
            values[key] = field.rstrip()
        elif key in REALS:
            values[key] = real(field, 12)
        elif key in SCIENTIFIC:
            values[key] = real(field, 3)
        else:
            values[key] = int(field[:12])
        if key == "files":
            values["n_files"] = len(field.split())
        elif key == "num_samples" and values["n_files"] > len(field.split()):
            print("Error: num_samples entries is less than num_files in paramfile")
            sys.exit(0)
    return values


def main():
    mode = os.environ.get("FAKE_AMICA", "behave")
    if mode == "no library":
        print(f"{sys.argv[0]}: error while loading shared libraries: libmpi.so.12: "
              "cannot open shared object file", file=sys.stderr)  # fmt: skip
        sys.exit(127)
    if mode == "no mpi":
        print("MPI_Init failed: PMIX server unreachable")
        sys.exit(1)
    if mode == "segfault":
        os.kill(os.getpid(), signal.SIGSEGV)
    if mode == "intel segfault":
        print("forrtl: severe (174): SIGSEGV, segmentation fault occurred")
        sys.exit(174)
    print("Processing arguments ...", flush=True)
    values = read(sys.argv[1])
    out = Path(values["outdir"])
    if mode == "silent":
        sys.exit(0)
    if mode == "status":
        sys.exit(3)
    if mode == "no memory":
        print(" allocation error")
        sys.exit(0)
    if mode == "small segment":
        print(" Error: minimum segment size too small")
        sys.exit(0)
    if mode == "hang":
        helper = subprocess.Popen(["sleep", "300"])
        Path(os.environ["FAKE_AMICA_HELPER"]).write_text(str(helper.pid))
        print("helper started", flush=True)
        time.sleep(300)
    out.mkdir()
    if mode == "no files":
        print(" num eigs kept =            0")
        sys.exit(0)
    if mode.startswith("golden:"):
        for path in Path(mode[7:]).iterdir():
            shutil.copy(path, out)
        print((out / "out.txt").read_text())
        sys.exit(0)
    compute(values, out, mode)


def fit(values, X, first):
    """Return what the program would find."""
    import amica_core as ac

    names = {f"update_{name}": name for name in ("A", "c", "gm", "alpha", "mu", "beta")}
    names["do_rho"] = "rho"
    result = ac.fit(
        X,
        values["pcakeep"],
        n_models=values["num_models"],
        n_mixtures=values["num_mix_comps"],
        sphering="symmetric" if values["do_approx_sphere"] else "principal",
        center=bool(values["do_mean"]),
        max_iter=values["max_iter"],
        learning_rate=ac.LearningRate(
            values["lrate"],
            values["minlrate"],
            values["lratefact"],
            values["newt_ramp"],
            values["max_decs"],
            values["rholrate"],
            values["rholratefact"],
        ),
        newton=ac.Newton(values["newt_start"], values["newtrate"])
        if values["do_newton"]
        else False,
        stopping=ac.Stopping(
            values["min_dll"] if values["use_min_dll"] else None,
            min_gradient=values["min_grad_norm"] if values["use_grad_norm"] else None,
        ),
        rejection=ac.Rejection(
            values["rejstart"], values["rejint"], values["numrej"], values["rejsig"]
        )
        if values["do_reject"]
        else None,
        bounds=ac.Bounds(
            (values["invsigmin"], values["invsigmax"]),
            (values["minrho"], values["maxrho"]),
        ),
        fixed=[name for key, name in names.items() if not values[key]],
        init=ac.initial_model(first["A"].shape[0], values["num_models"])._replace(
            **{"beta" if k == "sbeta" else k: v for k, v in first.items()}
        ),
        compatibility="fortran",
    )
    sums = result.joint_log_likelihood(X)
    model = result.model._asdict()
    return (
        {k: model["beta" if k == "sbeta" else k] for k in first},
        result.sphering.matrix,
        result.sphering.mean,
        result.history.log_likelihood,
        sums * result.kept[:, None],
    )


def stay(values, X, first):
    """Return the first values: quick, and enough where the fit does not matter."""
    mean = X.mean(axis=0)
    variances, vectors = np.linalg.eigh(np.cov(X.T, bias=True))
    sphere = (vectors / np.sqrt(variances)) @ vectors.T
    LL = np.linspace(-1, -0.9, values["max_iter"])
    return first, sphere, mean, LL, np.full((len(X), values["num_models"]), -1.0)


def compute(values, out, mode):
    nx, n = values["data_dim"], values["pcakeep"]
    M, J = values["num_models"], values["num_mix_comps"]
    kind = "<f8" if values["dble_data"] else "<f4"
    X = np.fromfile(values["files"], kind).reshape(-1, nx)
    assert len(X) == values["field_dim"] * values["num_samples"]
    shapes = {"A": (n, n * M), "c": (n, M), "gm": (M,)}
    shapes |= dict.fromkeys(("alpha", "mu", "sbeta", "rho"), (J, n * M))
    first = {
        name: np.fromfile(Path(values["indir"]) / name, "<f8").reshape(shape, order="F")
        for name, shape in shapes.items()
    }
    engine = fit if mode == "fit" else stay
    last, sphere, mean, found, joint = engine(values, X, first)
    LL = np.zeros(values["max_iter"])
    LL[: len(found)] = found
    if values["block_size"] * values["max_threads"] > values["field_dim"]:
        LL[:] = 0
    if mode == "nan":
        LL[1:] = np.nan
    S = np.zeros((nx, nx))
    S[:n] = sphere
    A = last["A"]
    files = {
        **last,
        "W": np.stack(
            [np.linalg.inv(A[:, h * n : (h + 1) * n]) for h in range(M)], axis=-1
        ),
        "S": S,
        "mean": mean,
        "LL": LL,
        "nd": np.full((values["max_iter"], n * M), 1e-4),
    }
    if values["write_LLt"]:
        table = np.concatenate([joint, np.logaddexp.reduce(joint, 1)[:, None]], 1)
        table[(joint == 0).all(axis=1)] = 0
        files["LLt"] = table.T
    if mode == "no LL":
        del files["LL"]
    for name, numbers in files.items():
        (out / name).write_bytes(np.asarray(numbers, "<f8").tobytes(order="F"))
    slots = np.arange(1, n * M + 1, dtype="<i4").tobytes()
    (out / "comp_list").write_bytes(slots + bytes(len(slots)))
    text = "".join(
        f" iter{i:6d} lrate = {0.1:13.10f} LL = {LL[i - 1]:14.10f} nd = {0.01:13.10f}, "
        f"D =   0.00000E+00 -0.10000E-01  (  0.0{i % 10} s,   0.0 h)\n"
        for i in range(1, len(found) + 1)
    )
    text += "... done. Execution time:   0.00 h \n"
    (out / "out.txt").write_text(text)
    print(text, end="", flush=True)
    if mode == "hang after writing":
        time.sleep(300)


if __name__ == "__main__":
    main()
