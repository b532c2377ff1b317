import subprocess
import sys


def test_import_needs_numpy_alone():
    code = (
        "import sys\n"
        "for name in ('jax', 'jaxlib'): sys.modules[name] = None\n"
        "import spike_native\n"
        "assert spike_native.border_stride() > 0\n"
        "assert spike_native.__version__\n"
        "from spike_native import xla\n"
        "try: xla.forward(spike_native.Neuron(), None, None, None)\n"
        "except ImportError as error: assert 'spike-native[jax]' in str(error)\n"
        "else: raise SystemExit('no error')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
