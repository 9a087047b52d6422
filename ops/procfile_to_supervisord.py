"""Writes the supervisord configuration for the Procfile to standard output; knows nothing of what the entries do."""

import argparse
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path

ENTRY = re.compile(r"([A-Za-z][A-Za-z0-9_]*):\s*(\S.*)")
STOP_SECONDS = {"pollers": 60}  # a warm shutdown lets each poller finish the composite it holds
DEFAULT_STOP_SECONDS = 15

HEADER = """\
; Made by ops/run from the Procfile at each start; an edit here is lost.
[supervisord]
nodaemon=true
silent=true
logfile=logs/supervisord.log
logfile_maxbytes=10MB
logfile_backups=5
pidfile=instance/supervisord.pid
umask=077
{user}
[unix_http_server]
file={socket}
chmod=0700

[rpcinterface:supervisor]
supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface

[supervisorctl]
serverurl=unix://{socket}
"""

# setpriv: an entry gets SIGTERM should supervisord itself be killed, so that no orphan polls on.
# Each entry is alone in its group, so supervisord stops them one after another, the last started first.
PROGRAM = """
[program:{name}]
command=setpriv --pdeathsig TERM -- ops/entry {name}
priority={priority}
autorestart=true
startsecs=2
startretries=100000
stopsignal=TERM
stopasgroup=false
killasgroup=true
stopwaitsecs={stop_seconds}
redirect_stderr=true
stdout_logfile=logs/{name}.log
stdout_logfile_maxbytes=10MB
stdout_logfile_backups=5
"""


class ProcfileError(ValueError):
    """The Procfile cannot be used; the message names the line."""


def entry_names(procfile: str) -> list[str]:
    """Names of the entries in their order. Raises ProcfileError for a line that is no entry or a repeated name."""
    names: list[str] = []
    for number, line in enumerate(procfile.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        match = ENTRY.fullmatch(line)
        if match is None:
            raise ProcfileError(f"Procfile line {number} is not `name: command`: {line!r}")
        if match[1] in names:
            raise ProcfileError(f"Procfile line {number}: there are two entries {match[1]!r}")
        names.append(match[1])
    return names


def supervisord_config(names: Iterable[str], socket: str, *, root_user: bool = False) -> str:
    """The configuration that runs `names`, started in their order; paths but `socket` are relative to the checkout."""
    header = HEADER.format(socket=socket.replace("%", "%%"), user="user=root\n" if root_user else "")
    programs = (
        PROGRAM.format(name=name, priority=10 * place, stop_seconds=STOP_SECONDS.get(name, DEFAULT_STOP_SECONDS))
        for place, name in enumerate(names, start=1)
    )
    return header + "".join(programs)


def main(arguments: list[str]) -> None:
    """Command line: --socket PATH, --without NAME (repeatable), and the Procfile's path."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("procfile", type=Path)
    parser.add_argument("--socket", required=True, help="control socket of supervisord")
    parser.add_argument("--without", action="append", default=[], metavar="NAME", help="leave this entry out")
    options = parser.parse_args(arguments)
    names = [name for name in entry_names(options.procfile.read_text()) if name not in options.without]
    sys.stdout.write(supervisord_config(names, options.socket, root_user=os.geteuid() == 0))


if __name__ == "__main__":
    main(sys.argv[1:])
