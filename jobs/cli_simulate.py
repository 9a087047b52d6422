"""``flask simulate``, the command line of the simulated OLTs; serving is done elsewhere, no database is opened."""

from __future__ import annotations

import os
from pathlib import Path

import click

from jobs.snmp.simulator.runner import BindError, die_with_parent, run
from jobs.snmp.simulator.spec import OltSpec, SpecError, numbered, parse_spec
from jobs.snmp.simulator.usm import AUTH_PROTOCOLS, PRIV_PROTOCOLS, V3User

MAX_OLTS = 1000

_HELP = """Serve simulated OLTs as real SNMP agents over UDP until SIGTERM or Ctrl-C.

\b
  flask simulate --olt huawei@127.0.0.1:20000,onus=64 --olt zte@20001,onus=125,churn=0.05
  flask simulate --olt walks/zxa10_c320.snmprec@20002 --olt vsol@20003,model=V1600D
  flask simulate --olt huawei@20000,onus=64,delay=0.02 --count 50 --log requests.log

\b
An OLT is SOURCE@[HOST:]PORT[,KEY=VALUE...]
  SOURCE     huawei, zte, fiberhome, vsol, bdcom, cdata, nokia, ufiber, or
             the path of a .snmprec recording
  HOST       127.0.0.1 unless given
  PORT       0 takes any free port; the ready line tells which

\b
Any OLT
  community=TEXT  v1 and v2c community (public); another one gets no answer
  name=TEXT       sysName of a generated OLT (SIM-HUAWEI-01)
  seed=N          same seed, same OLT: serials, customers, powers (its place
                  in the list)
  at=UNIX         the OLT's clock starts at this time (default: now)
  speed=X         the OLT's clock runs X times as fast (1)

\b
Generated OLTs
  onus=N          rows in the ONU tables while churn is 0 (64, up to 16384)
  churn=X         outages per ONU and hour, 0 to 1 (0); a fifth as often an ONU
                  is removed for a while and another appears
  sentinels=X     share of the lit ONUs, 0 to 1, whose powers are the vendor's
                  value for "no reading", drawn anew every five minutes (0)
  model=NAME      which model; the first unless given, for huawei and zte by
                  the number of ONUs:
                    huawei     MA5608T MA5680T MA5603T MA5683T MA5801
                    zte        C320 C300 C600 C620 C320-1082
                    fiberhome  AN5516-01 AN5516-06 AN5516-04
                    vsol       V1600G V1600D (EPON)
                    bdcom      GP3600-16B P3310C (EPON)
                    cdata      FD1608S FD1608S-B1 FD1208S (EPON)
                    nokia      FWLT-C FGLT-B FWLT-C+FGLT-B (boards by turns)
                    ufiber     UF-OLT
  family=B|C      how a ZTE C300 or C320 numbers ifIndex (C)

\b
Slow (seconds)
  delay=S         every answer waits S
  jitter=S        plus up to S more
  rowdelay=S      plus S for each varbind in it
  sag=S           plus S for each request of the last second: a CPU that sags
                  under load and recovers when left alone

\b
Silent
  drop=X          share of requests without answer, 0 to 1
  dead=1          never answers
  deadfile=PATH   never answers as long as PATH exists (%p in it: the port)
  mute=OID        requests that reach OID or below get no answer
  die=OID         requests that start at OID or after it, below the same
                  parent, get no answer: a walk that dies in its table

\b
Wrong
  toobig=N        largest answer in octets (8000): a GET above it gets tooBig,
                  a GETBULK is cut short
  maxvars=N       most varbinds in an answer: a GET or GETNEXT of more gets
                  tooBig, a GETBULK is cut short
  maxrep=N        at most N rows per column in a GETBULK answer
  truncate=N      the answer to a GET holds its first N varbinds only
  loop=OID        GETNEXT below OID answers with the OID it was asked for
  generr=OID      requests that reach OID or below get genErr
  vanish=OID      nothing is left below OID ...
  vanishat=S      ... from second S after the start (0) ...
  vanishfor=S     ... for S seconds (120)
  reboot=S        restarts every S seconds: sysUpTime and SNMPv3 engine time
                  start at 0, SNMPv3 boots grow by one; before that ...
  rebootfor=S     ... no answer for S seconds (10)
  frozenboots=1   SNMPv3 boots stay as they are over a reboot

\b
One line per OLT on stdout when all listen:
  event=agent_ready host=127.0.0.1 port=20000 source=huawei onus=64
Exit codes: 0 stopped, 1 cannot serve (file, port, rights), 2 wrong usage.
"""


def _specs(_context: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]) -> list[OltSpec]:
    try:
        return [parse_spec(text) for text in texts]
    except SpecError as error:
        raise click.BadParameter(str(error)) from error


def _user(name: str | None, auth: tuple[str, str | None], priv: tuple[str, str | None]) -> V3User | None:
    if name is None:
        if auth[1] or priv[1]:
            raise click.UsageError("--v3-auth-password and --v3-priv-password need --v3-user NAME")
        return None
    try:
        return V3User(name, auth[1] or None, priv[1] or None, auth[0], priv[0])
    except ValueError as error:
        raise click.UsageError(str(error)) from error


@click.command("simulate", help=_HELP, short_help="Serve simulated OLTs as SNMP agents.")
@click.option(
    "--olt", "specs", multiple=True, required=True, callback=_specs, metavar="SPEC", help="An OLT; repeatable."
)
@click.option(
    "--count",
    type=click.IntRange(1, MAX_OLTS),
    default=1,
    show_default=True,
    help="Serve every --olt this many times, on consecutive ports and with consecutive seeds.",
)
@click.option(
    "--log",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Append one line per request: unix seconds, OLT port, source port, PDU type, number of varbinds.",
)
@click.option("--v3-user", help="Answer SNMPv3 too, to this user (v1 and v2c go on with the community).")
@click.option("--v3-auth-protocol", type=click.Choice(list(AUTH_PROTOCOLS)), default="SHA", show_default=True)
@click.option("--v3-auth-password", envvar="SIMULATE_V3_AUTH_PASSWORD", show_envvar=True, help="At least 8 characters.")
@click.option("--v3-priv-protocol", type=click.Choice(list(PRIV_PROTOCOLS)), default="AES", show_default=True)
@click.option("--v3-priv-password", envvar="SIMULATE_V3_PRIV_PASSWORD", show_envvar=True, help="At least 8 characters.")
@click.option("--die-with-parent", is_flag=True, help="Stop when the process that started this one ends (Linux).")
def simulate(
    specs: list[OltSpec],
    count: int,
    log: Path | None,
    v3_user: str | None,
    v3_auth_protocol: str,
    v3_auth_password: str | None,
    v3_priv_protocol: str,
    v3_priv_password: str | None,
    die_with_parent: bool,
) -> None:
    """Serve simulated OLTs; the long help is ``_HELP``."""
    if die_with_parent:
        _die_with_parent()
    user = _user(v3_user, (v3_auth_protocol, v3_auth_password), (v3_priv_protocol, v3_priv_password))
    try:
        run(_counted(specs, count), user, log, click.echo)
    except (BindError, SpecError) as error:
        raise click.ClickException(str(error)) from error


_PARENT = os.getppid()


def _die_with_parent() -> None:
    die_with_parent(_PARENT)


def _counted(specs: list[OltSpec], count: int) -> list[OltSpec]:
    try:
        olts = numbered(specs, count)
    except SpecError as error:
        raise click.UsageError(str(error)) from error
    if len(olts) > MAX_OLTS:
        raise click.UsageError(f"{len(olts)} OLTs are more than one process serves ({MAX_OLTS}); start several")
    return olts


if __name__ == "__main__":
    simulate()
