"""Writers killed with -9 in the middle of their commits (F24), on SQLite or PostgreSQL; is anything ever half written?

Pollers start and end composites, one scheduler takes slots of one second, one "web" asks for runs and cancels some.
Half of the kills fall within three milliseconds of the moment at which a writer says COMMIT, the others anywhere. What
a killed poller ran is then given up, as its pool would. Afterwards `commit_audit` looks; goal: it finds nothing.
Run: `python -m bench.killed_writers [--kills 500] [--pollers 4] [--postgres] [--seconds 900]`; prints one JSON line.
"""

import argparse
import json
import logging

from testing.measuring.grounds import folder
from testing.measuring.killed_writers import Plan, run


def main() -> None:
    """Read the command line, run, print one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--pollers", type=int, default=4)
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--seed", type=int, default=24)
    parser.add_argument("--seconds", type=float, default=900.0, help="no more kills after so long")
    plan = Plan(**vars(parser.parse_args()))
    logging.disable(logging.WARNING)
    with folder() as place:
        print(json.dumps(run(plan, place)))


if __name__ == "__main__":
    main()
