# SPDX-License-Identifier: Apache-2.0
"""``python -m ironcl`` is the ``ironcl`` command."""
from ._command import main

main()
