"""How thoroughly each profile measures."""

from dataclasses import dataclass

from ._discover import UsageError, suggest


@dataclass(frozen=True)
class Profile:
    """How often, how long and how patiently to measure.

    Parameters
    ----------
    repeats : int
        Timed repetitions of a contender, unless its workload says otherwise.
    least_s : float
        A repetition shorter than this is made of several calls, so that waking up and
        cold caches do not weigh on it.
    budget_s : float
        Once the contenders of a case have been timed for this long in sum, no
        further round begins.
    least_rounds : int
        So many rounds are made whatever they take.
    timeout_s : float
        How long a worker may take for one step: setting up, or one repetition.
    """

    repeats: int
    least_s: float
    budget_s: float
    least_rounds: int
    timeout_s: float


_THOROUGH = Profile(
    repeats=15, least_s=0.02, budget_s=120.0, least_rounds=3, timeout_s=1800.0
)
_PROFILES = {
    "smoke": Profile(
        repeats=7, least_s=0.005, budget_s=10.0, least_rounds=1, timeout_s=180.0
    ),
    "laptop": _THOROUGH,
    "gpu": _THOROUGH,
}


def profile_named(name: str) -> Profile:
    """Return the profile with this name."""
    if name not in _PROFILES:
        raise UsageError(
            f"no profile {name!r}{suggest(name, _PROFILES)}. "
            f"The profiles are {', '.join(_PROFILES)}."
        )
    return _PROFILES[name]
