"""Everything that is measured in minutes: `make bench`. Each part can be run alone, with options of its own."""

from __future__ import annotations

import subprocess
import sys

PARTS = (
    ["benchmarks.bulk"],
    ["benchmarks.match", "--sizes", "100000,1000000"],
    ["benchmarks.matrix"],
    ["benchmarks.churn"],
    ["benchmarks.cold_start"],
    ["benchmarks.mapping"],
)


def main() -> None:
    """Run the parts one after the other; a part that fails ends the run."""
    for part in PARTS:
        print(f"\n{' '.join(part)}", flush=True)
        subprocess.run([sys.executable, "-m", *part], check=True)


if __name__ == "__main__":
    main()
