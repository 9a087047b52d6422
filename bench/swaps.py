"""ONUs that change places while their OLT is read: is anything booked to a serial that was not read of it?

`--histories` groups of four indexes, sixty to an OLT, see twelve composites with changes between and inside them; the
serials are read at any place of the chain, fail now and then, or are not part of it. Goal: nothing is wrong.
Run: `python -m bench.swaps [--histories 10000] [--postgres]`; prints one JSON line.
"""

import argparse
import json
from collections import Counter

from portal.extensions import db
from testing.measuring.committing import product
from testing.measuring.swaps import Histories

GROUPS, COMPOSITES = 60, 12


def main() -> None:
    """Run them, print, judge."""
    parser = argparse.ArgumentParser(prog="python -m bench.swaps", description=__doc__)
    parser.add_argument("--histories", type=int, default=10_000)
    parser.add_argument("--postgres", action="store_true")
    options = parser.parse_args()
    wrong, changes = Counter[str](), Counter[str]()
    olts = -(-options.histories // GROUPS)
    with product(postgres=options.postgres):
        for seed in range(olts):
            histories = Histories(db.session(), seed, GROUPS)
            wrong += histories.run(COMPOSITES)
            changes += histories.world.changes
    found = {"histories": olts * GROUPS, "changes": dict(changes), "wrong": dict(wrong), "pass": not wrong}
    print(json.dumps({"bench": "swaps", "database": "postgresql" if options.postgres else "sqlite", **found}))


if __name__ == "__main__":
    main()
