"""The command line: `amica-core`, or `python -m amica_core`."""

import sys

from ._cli.main import main as main

if __name__ == "__main__":
    sys.exit(main())
