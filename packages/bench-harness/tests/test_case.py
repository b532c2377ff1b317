import pytest
from bench_harness import Case, Workload


def make(**changes):
    given = {
        "name": "demo",
        "claim": "It is a demonstration.",
        "baseline": "base",
        "profiles": {"smoke": [{"n": 1}]},
    }
    return Case(**{**given, **changes})


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("name", ""),
        ("name", None),
        ("name", "a/b"),
        ("name", "two words"),
        ("claim", " "),
        ("baseline", 3),
        ("quality", ""),
        ("better", "faster"),
        ("tolerance", -1.0),
        ("tolerance", float("nan")),
        ("tolerance", float("inf")),
        ("env", {"OMP_NUM_THREADS": 1}),
        ("env", ["OMP_NUM_THREADS"]),
        ("profiles", {}),
        ("profiles", None),
        ("profiles", {"smoek": [{}]}),
        ("profiles", {"smoke": []}),
        ("profiles", {"smoke": "n=1"}),
        ("profiles", {"smoke": [3]}),
        ("profiles", {"smoke": [{"n": [1, 2]}]}),
        ("profiles", {"smoke": [{1: 1}]}),
        ("profiles", {"smoke": [{"n": 1}, {"n": 1}]}),
    ],
)
def test_a_bad_case_names_the_argument(argument, value):
    with pytest.raises(ValueError, match=f"`{argument}.* must be"):
        make(**{argument: value})


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("run", 3),
        ("sync", None),
        ("quality", {"error": 0.0}),
        ("curves", []),
        ("scratch_bytes", -1),
        ("scratch_bytes", 1.5),
        ("scratch_bytes", True),
        ("repeats", -1),
        ("repeats", True),
    ],
)
def test_a_bad_workload_names_the_argument(argument, value):
    with pytest.raises(ValueError, match=f"`{argument}` must be"):
        Workload(**{"run": lambda: None, argument: value})


def test_contenders_keep_their_order_and_their_function():
    case = make()

    @case.contender("second")
    def setup(n):
        return Workload(run=lambda: n)

    case.contender("base", requires=("numpy",), install="pip install numpy")(setup)
    assert list(case.contenders) == ["second", "base"]
    assert case.contenders["base"].requires == ("numpy",)
    assert setup(2).run() == 2


def test_a_contender_name_is_taken_once():
    case = make()
    case.contender("base")(lambda n: None)
    with pytest.raises(ValueError, match="`name` must be new in case 'demo'"):
        case.contender("base")


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("name", ""),
        ("requires", "numpy"),
        ("requires", ("numpy.linalg",)),
        ("requires", (3,)),
        ("install", ""),
    ],
)
def test_a_bad_contender_names_the_argument(argument, value):
    with pytest.raises(ValueError, match=f"`{argument}` must be"):
        make().contender(**{"name": "base", argument: value})


def test_a_contender_must_accept_the_parameters_of_the_case():
    with pytest.raises(ValueError, match=r"`params` \{'n': 1\}: missing a required"):
        make().contender("base")(lambda n, m: None)
    with pytest.raises(ValueError, match="unexpected keyword argument 'n'"):
        make().contender("base")(lambda: None)
