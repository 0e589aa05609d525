"""`python -m opsplice`."""

import sys

from opsplice.cli import main

sys.exit(main())
