"""`python -m treadle` is `treadle`. Knows nothing else."""

from __future__ import annotations

from treadle.cli.start import main

if __name__ == "__main__":
    main()
