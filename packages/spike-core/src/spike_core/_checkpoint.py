"""Training states on disk, written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Any

import jax

Tree = Any


class Checkpoints:
    """A folder that holds the latest state of a training.

    A state is written beside the one before, which is deleted only when the new one is
    complete: whenever the program ends, one of them is there.

    Parameters
    ----------
    folder
        Made if it is not there.

    Raises
    ------
    ImportError
        If orbax is not installed.
    """

    def __init__(self, folder: str | os.PathLike[str]):
        try:
            import orbax.checkpoint as orbax
        except ImportError as error:
            raise ImportError(
                '`checkpoint` needs orbax-checkpoint: `pip install "spike-core[train]"`'
            ) from error
        self._orbax = orbax
        self.folder = Path(folder).resolve()
        # Not in the background: an epoch counts as done once it is on disk.
        options = orbax.CheckpointManagerOptions(
            max_to_keep=1, enable_async_checkpointing=False
        )
        self._manager = orbax.CheckpointManager(self.folder, options=options)

    def __enter__(self) -> Checkpoints:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        del kind, error, trace
        self._manager.close()

    def save(self, number: int, tree: Tree, notes: dict[str, Any]) -> None:
        """Write a state.

        Parameters
        ----------
        number
            Larger than that of the state before.
        tree
            Arrays in dictionaries, lists or other containers, keys of random numbers
            included.
        notes
            Whatever JSON can hold.
        """
        args = self._orbax.args
        arrays = _by_name(tree)
        kinds = {name: _kind(leaf) for name, leaf in arrays.items()}
        self._manager.save(
            number,
            args=args.Composite(
                arrays=args.StandardSave(arrays),
                notes=args.JsonSave({"kinds": kinds, "notes": notes}),
            ),
        )

    def load(self, like: Tree) -> tuple[Tree, dict[str, Any]] | None:
        """Read the latest state, if there is one.

        Parameters
        ----------
        like
            A tree of the structure, shapes and dtypes that were saved.

        Returns
        -------
        tree, notes
            As saved; None if the folder is empty.

        Raises
        ------
        ValueError
            If the folder holds something of another structure, shape or dtype.
        """
        number = self._manager.latest_step()
        if number is None:
            return None
        args = self._orbax.args
        read: Any = self._manager.restore(
            number, args=args.Composite(notes=args.JsonRestore())
        )
        arrays = _by_name(like)
        self._check(read.notes["kinds"], arrays)
        wanted = {
            name: self._orbax.utils.to_shape_dtype_struct(leaf)
            for name, leaf in arrays.items()
        }
        found: Any = self._manager.restore(
            number, args=args.Composite(arrays=args.StandardRestore(wanted))
        )
        leaves, structure = jax.tree.flatten(like)
        restored = [
            jax.random.wrap_key_data(found.arrays[name], impl=jax.random.key_impl(leaf))
            if _is_key(leaf)
            else found.arrays[name]
            for name, leaf in zip(arrays, leaves, strict=True)
        ]
        return jax.tree.unflatten(structure, restored), read.notes["notes"]

    def _check(self, kinds: dict[str, str], arrays: dict[str, Any]) -> None:
        here = {name: _kind(leaf) for name, leaf in arrays.items()}
        for name in sorted(kinds.keys() | here.keys()):
            there, mine = kinds.get(name, "missing"), here.get(name, "missing")
            if there != mine:
                raise ValueError(
                    f"`checkpoint` {self.folder} holds the training of another "
                    f"network or optimizer: {name} is {there} there and {mine} here; "
                    "give another folder to start afresh"
                )


def _by_name(tree: Tree) -> dict[str, Any]:
    """Return the leaves by their path, with keys of random numbers as numbers."""
    return {
        ".".join(str(_key(part)) for part in path): (
            jax.random.key_data(leaf) if _is_key(leaf) else leaf
        )
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    }


def _key(part: Any) -> Any:
    for attribute in ("key", "idx", "name"):
        if hasattr(part, attribute):
            return getattr(part, attribute)
    return part


def _is_key(leaf: Any) -> bool:
    return jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _kind(leaf: Any) -> str:
    return f"{leaf.dtype}{list(leaf.shape)}"
