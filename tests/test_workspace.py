"""What has to hold between the packages, and between them and the root."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = sorted((ROOT / "packages").iterdir())
PROJECTS = {
    folder.name: tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    for folder in PACKAGES
}
WORKSPACE = tomllib.loads((ROOT / "pyproject.toml").read_text())
ENVIRONMENTS = WORKSPACE["tool"]["hatch"]["envs"]

# No hard dependency may be heavier than these.
HARD_DEPENDENCIES = {
    "spike-core": {"jax", "flax", "optax", "numpy"},
    "spike-parallel": {"jax", "spike-core"},
    "spike-eprop": {"jax", "optax", "spike-core"},
    "amica-core": {"numpy", "scipy", "scikit-learn"},
    "spike-native": {"numpy"},
    "amica-native": {"numpy"},
    "bench-harness": {"numpy", "rich", "typer"},
}
# What a plain import must not pull in: other engines, and what only plots need.
HEAVY = {"torch", "mne", "matplotlib", "h5py", "nir", "tonic", "bench_harness"}
LIGHT = {
    "spike-core": HEAVY,
    "spike-parallel": HEAVY,
    "spike-eprop": HEAVY,
    "spike-native": HEAVY | {"jax"},
    "amica-core": HEAVY | {"jax"},
    "amica-native": HEAVY | {"jax", "scipy"},
    "bench-harness": HEAVY - {"bench_harness"} | {"jax"},
}


def requirement_name(requirement: str) -> str:
    return re.match(r"[A-Za-z0-9_.-]+", requirement)[0]


@pytest.mark.parametrize("folder", PACKAGES, ids=lambda folder: folder.name)
class TestPackage:
    def test_is_complete(self, folder):
        import_name = folder.name.replace("-", "_")
        for part in (
            "README.md",
            "CHANGELOG.md",
            "LICENSE",
            "pyproject.toml",
            "tests",
            f"src/{import_name}/__init__.py",
            f"src/{import_name}/py.typed",
        ):
            assert (folder / part).exists(), part

    def test_licence_is_the_workspace_licence(self, folder):
        licence = folder / "LICENSE"
        assert not licence.is_symlink()  # a link dangles in a source distribution
        assert licence.read_bytes() == (ROOT / "LICENSE").read_bytes()

    def test_readme_shows_how_to_install_and_use_it(self, folder):
        readme = (folder / "README.md").read_text()
        assert re.search(rf"""pip install ["']?{folder.name}""", readme)
        assert "```python" in readme

    def test_hard_dependencies(self, folder):
        declared = PROJECTS[folder.name]["dependencies"]
        assert {requirement_name(r) for r in declared} <= HARD_DEPENDENCIES[folder.name]

    def test_siblings_are_required_by_a_compatible_range(self, folder):
        project = PROJECTS[folder.name]
        extras = project.get("optional-dependencies", {}).values()
        everything = project["dependencies"] + [r for extra in extras for r in extra]
        for requirement in everything:
            name = requirement_name(requirement)
            if name in PROJECTS:
                major, minor, _ = PROJECTS[name]["version"].split(".")
                wanted = f"{name}>={major}.{minor},<{major}.{int(minor) + 1}"
                assert requirement == wanted

    def test_import_is_light(self, folder):
        import_name = folder.name.replace("-", "_")
        code = f"import sys, {import_name}; print(*sys.modules)"
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        loaded = {module.split(".")[0] for module in done.stdout.split()}
        assert not loaded & LIGHT[folder.name]

    def test_version_is_the_projects(self, folder):
        module = __import__(folder.name.replace("-", "_"))
        assert module.__version__ == PROJECTS[folder.name]["version"]
        changelog = (folder / "CHANGELOG.md").read_text()
        assert f"## {module.__version__}" in changelog


@pytest.mark.parametrize(
    "page",
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / ".ci/run"],
    ids=lambda page: page.name,
)
def test_commands_that_are_promised_exist(page):
    commands = re.findall(r"hatch run (?:\+\S+ )?([\w:]+)", page.read_text())
    assert commands
    for command in commands:
        environment, _, script = command.rpartition(":")
        assert script in ENVIRONMENTS[environment or "default"]["scripts"], command


def test_bench_subcommands_that_are_promised_exist():
    text = (ROOT / "README.md").read_text() + (ROOT / "CONTRIBUTING.md").read_text()
    subcommands = set(re.findall(r"hatch run bench (\w+)", text))
    assert "run" in subcommands
    for subcommand in subcommands:
        done = subprocess.run(
            [sys.executable, "-m", "bench_harness", subcommand, "--help"],
            capture_output=True,
        )
        assert done.returncode == 0, subcommand


@pytest.mark.parametrize(
    "page",
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("packages/*/README.md")],
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_relative_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_tables_in_documents_are_those_of_the_committed_results():
    command = [sys.executable, str(ROOT / "tools" / "tables.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
