"""Which examples can run here."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("matplotlib") else ["src/spike_core/plot"]
