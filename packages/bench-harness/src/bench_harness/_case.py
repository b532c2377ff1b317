"""What a benchmark file declares: cases, their contenders, and the work to measure."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

#: The sizes a case may come in.
PROFILES = ("smoke", "laptop", "gpu")

Scalar = str | int | float | bool | None
Params = Mapping[str, Scalar]


class Unavailable(Exception):
    """Raise it in a contender that cannot take part here, with the reason.

    A contender whose modules are absent is found through ``requires``; this exception
    is for what only the contender knows: no such device, no such program, a size
    that would run for hours. It is reported as missing, not as failed.

    Examples
    --------
    >>> def on_cuda(steps):
    ...     raise Unavailable("needs a CUDA device")
    """


def _identity(value: Any) -> Any:
    return value


def _expect(condition: bool, argument: str, wanted: str, seen: object) -> None:
    if not condition:
        raise ValueError(f"`{argument}` must be {wanted}, got {seen!r}.")


@dataclass(frozen=True)
class Workload:
    """One contender, set up and ready to be timed.

    Parameters
    ----------
    run : callable
        One repetition, called without arguments. Its first call is reported apart, as
        it is where a compiler works.
    sync : callable, default: identity
        Called on what `run` returned, inside the timed region: it waits until the
        result is there (``jax.block_until_ready``).
    quality : callable, optional
        From the last output to a mapping of scalars. Called once, after timing.
    curves : callable, optional
        From the last output to a mapping of curves: a sequence of numbers, or a pair
        ``(x, y)`` of sequences. Called once, after timing.
    scratch_bytes : int or callable, optional
        Planned temporary memory of one repetition, or a function without arguments that
        returns it and is called after timing. For JAX that is ``lambda:
        jitted.lower(x).compile().memory_analysis().temp_size_in_bytes``: done before
        the first call it would compile, and the first call would seem to cost nothing.
    repeats : int, optional
        Timed repetitions after the first call, instead of the profile's number. Use 1
        for something long like a whole training, and 0 where the first call itself is
        the measurement: then compiling counts as part of it.

    Examples
    --------
    >>> work = Workload(run=lambda: sum(range(10)), quality=lambda out: {"sum": out})
    >>> work.quality(work.run())
    {'sum': 45}
    """

    run: Callable[[], Any]
    sync: Callable[[Any], Any] = _identity
    quality: Callable[[Any], Mapping[str, float]] | None = None
    curves: Callable[[Any], Mapping[str, Sequence]] | None = None
    scratch_bytes: int | Callable[[], int] | None = None
    repeats: int | None = None

    def __post_init__(self) -> None:
        for name in ("run", "sync"):
            value = getattr(self, name)
            _expect(callable(value), name, "callable", value)
        for name in ("quality", "curves"):
            value = getattr(self, name)
            _expect(value is None or callable(value), name, "callable or None", value)
        scratch, repeats = self.scratch_bytes, self.repeats
        _expect(
            scratch is None or callable(scratch) or _is_count(scratch),
            "scratch_bytes",
            "an integer of at least 0, a function that returns one, or None",
            scratch,
        )
        _expect(
            repeats is None or _is_count(repeats),
            "repeats",
            "an integer of at least 0 or None",
            repeats,
        )


@dataclass(frozen=True)
class Contender:
    """One way to do what a case asks for; made by `Case.contender`."""

    name: str
    setup: Callable[..., Workload]
    requires: tuple[str, ...]
    install: str | None


@dataclass(eq=False)
class Case:
    """A question put to several contenders on the same parameters.

    Parameters
    ----------
    name : str
        What `bench run` calls it.
    claim : str
        One sentence: what the case shows. It stands above the table of the report,
        whether the numbers support it or not.
    baseline : str
        The contender that the ratios refer to.
    quality : str, optional
        The headline quality, a key of what each `Workload.quality` returns.
    better : {"lower", "higher"}, default: "lower"
        Which direction of the headline quality is an improvement.
    tolerance : float, optional
        By how much the headline quality may worsen between two runs before `compare`
        calls it a regression, in its own unit. Default: 5 % of its size, plus 1e-6.
    profiles : mapping from profile name to a list of parameter sets
        Each contender is called with each set as keyword arguments.
    env : mapping of str to str, optional
        Environment variables common to the workers of all contenders, for example
        thread counts or the allocator's settings.

    Examples
    --------
    >>> case = Case(
    ...     name="sums",
    ...     claim="A closed form beats a loop.",
    ...     baseline="loop",
    ...     quality="error",
    ...     profiles={"smoke": [{"n": 1000}]},
    ... )
    >>> @case.contender("loop")
    ... def _(n):
    ...     return Workload(run=lambda: sum(range(n)), quality=lambda out: {"error": 0})
    >>> list(case.contenders)
    ['loop']
    """

    name: str
    claim: str
    baseline: str
    profiles: Mapping[str, Sequence[Params]]
    quality: str | None = None
    better: Literal["lower", "higher"] = "lower"
    tolerance: float | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    contenders: dict[str, Contender] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("name", "claim", "baseline"):
            value = getattr(self, name)
            _expect(_is_text(value), name, "a non-empty string", value)
        _expect(
            all(c.isalnum() or c in "-_." for c in self.name),
            "name",
            "made of letters, digits, `-`, `_` and `.` (it names files)",
            self.name,
        )
        _expect(
            self.quality is None or _is_text(self.quality),
            "quality",
            "the name of a quality or None",
            self.quality,
        )
        _expect(
            self.better in ("lower", "higher"),
            "better",
            "'lower' or 'higher'",
            self.better,
        )
        tolerance = self.tolerance
        _expect(
            tolerance is None
            or (isinstance(tolerance, int | float) and 0 <= tolerance < float("inf")),
            "tolerance",
            "a finite number of at least 0 or None",
            tolerance,
        )
        _expect(
            isinstance(self.env, Mapping)
            and all(
                isinstance(text, str) for pair in self.env.items() for text in pair
            ),
            "env",
            "a mapping from str to str",
            self.env,
        )
        _check_profiles(self.profiles)

    def contender(
        self,
        name: str,
        *,
        requires: Sequence[str] = (),
        install: str | None = None,
    ) -> Callable[[Callable[..., Workload]], Callable[..., Workload]]:
        """Register a contender: a function of the parameters that returns a `Workload`.

        The function runs in a process of its own. Whatever it does before it returns
        (imports, data, initial values) is set-up and not timed.

        Parameters
        ----------
        name : str
            Its row in the tables.
        requires : sequence of str
            Top-level modules that must be importable, else it is listed as missing.
        install : str, optional
            The command that a reader types to get what is missing.

        Raises
        ------
        ValueError
            For a name that is taken, a module name that is not a top-level one, or a
            function that cannot be called with the parameters of the case.
        """
        _expect(_is_text(name), "name", "a non-empty string", name)
        if name in self.contenders:
            raise ValueError(
                f"`name` must be new in case {self.name!r}, "
                f"but contender {name!r} is registered already."
            )
        _expect(
            not isinstance(requires, str)
            and all(_is_text(item) and item.isidentifier() for item in requires),
            "requires",
            "a sequence of top-level module names",
            requires,
        )
        _expect(
            install is None or _is_text(install), "install", "a string or None", install
        )

        def register(setup: Callable[..., Workload]) -> Callable[..., Workload]:
            signature = inspect.signature(setup)
            for params in self._all_params():
                try:
                    signature.bind(**params)
                except TypeError as error:
                    raise ValueError(
                        f"contender {name!r} of case {self.name!r} cannot be called "
                        f"with `params` {dict(params)!r}: {error}."
                    ) from None
            self.contenders[name] = Contender(name, setup, tuple(requires), install)
            return setup

        return register

    def _all_params(self) -> Iterator[Params]:
        for sets in self.profiles.values():
            yield from sets


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _check_profiles(profiles: Mapping[str, Sequence[Params]]) -> None:
    _expect(
        isinstance(profiles, Mapping) and len(profiles) > 0,
        "profiles",
        "a non-empty mapping from profile name to a list of parameter sets",
        profiles,
    )
    for profile, sets in profiles.items():
        _expect(profile in PROFILES, "profiles", f"keyed by {PROFILES}", profile)
        argument = f"profiles[{profile!r}]"
        _expect(
            isinstance(sets, Sequence) and not isinstance(sets, str) and len(sets) > 0,
            argument,
            "a non-empty list of parameter sets ([{}] for a case without parameters)",
            sets,
        )
        for number, params in enumerate(sets):
            _expect(
                isinstance(params, Mapping)
                and all(
                    isinstance(key, str)
                    and isinstance(value, str | int | float | bool | None)
                    for key, value in params.items()
                ),
                f"{argument}[{number}]",
                "a mapping from str to a string, number, bool or None",
                params,
            )
            _expect(params not in sets[:number], argument, "free of repeats", params)
