"""SQLite under 16 writers and 20 readers (F23), by the product's own transactions and page queries, in processes.

A writer queues, starts and ends one composite of 32 readings after the other, `--pause` seconds apart (0: as fast as it
can, to see the limit). A reader asks for what pages show. Goal: no "database is locked", p99 of a commit under 200 ms,
WAL under 64 MiB. `wait_ms` is until the write lock is held, `held_ms` what is done under it, `commit_ms` the COMMIT.
Run: `python -m bench.sqlite_writers [--seconds 60] [--writers 16] [--readers 20] [--pause 0.5]`; prints one JSON line.
"""

import argparse
import json
import logging

from testing.measuring.grounds import folder
from testing.measuring.sqlite_writers import Load, run


def main() -> None:
    """Read the command line, run, print one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--writers", type=int, default=16)
    parser.add_argument("--readers", type=int, default=20)
    parser.add_argument("--pause", type=float, default=0.5)
    load = Load(**vars(parser.parse_args()))
    logging.disable(logging.INFO)
    with folder() as place:
        print(json.dumps(run(load, place)))


if __name__ == "__main__":
    main()
