"""Which processor instructions the kernels use."""

from collections.abc import Generator
from contextlib import contextmanager

from ._library import library


def instruction_sets() -> tuple[str, ...]:
    """Return the instruction sets that are compiled in and run on this processor.

    Returns
    -------
    tuple of str
        The best one, which is used unless another is asked for, comes first. Some of
        `"avx512"`, `"avx2"`, and always `"baseline"` (x86-64-v2, NEON on Arm).

    Examples
    --------
    >>> import amica_native
    >>> amica_native.instruction_sets()[-1]
    'baseline'
    """
    names = []
    while (name := library.amica_instruction_set(len(names))) is not None:
        names.append(name.decode())
    return tuple(names)


@contextmanager
def use_instruction_set(name: str) -> Generator[None]:
    """Use one instruction set inside a `with` block, in all threads of the process.

    Parameters
    ----------
    name
        One of `instruction_sets()`.

    Raises
    ------
    ValueError
        If `name` is not one of `instruction_sets()`.

    Examples
    --------
    >>> import amica_native
    >>> with amica_native.use_instruction_set("baseline"):
    ...     float(amica_native.exp2(3.0))
    8.0
    """
    if not isinstance(name, str) or name not in instruction_sets():
        raise ValueError(
            f"`name` must be one of {', '.join(instruction_sets())}, got {name!r}"
        )
    before = library.amica_chosen_instruction_set()
    library.amica_choose_instruction_set(name.encode())
    try:
        yield
    finally:
        library.amica_choose_instruction_set(before)
