"""The recorded walks of ../shared/olt/walks (GPL, not part of this repository), and which device each one is."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

WALKS = Path(__file__).resolve().parents[3] / "shared" / "olt" / "walks"
MISSING = "../shared/olt/walks is absent: the recorded walks are not part of this repository"

# Recording → brand and model of the catalogue, and what decides: its own identity, sysDescr, or a subtree.
DEVICES: dict[str, tuple[str, str, str]] = {
    "bdcom": ("bdcom", "GP3600-16B", "sysobjectid"),
    "cdata": ("cdata", "FD12XX", "subtree"),
    "dasan-nos": ("dasan", "V5812G", "sysobjectid"),
    "dasan-nos_1": ("dasan", "V8240", "sysobjectid"),
    "datacom-dmos_dm4610-hw2": ("datacom", "DM4610", "sysdescr"),
    "datacom-dmos_dm4616": ("datacom", "DM4616", "sysdescr"),
    "edgeosolt": ("ufiber", "UF-OLT", "sysobjectid"),
    "eltex-olt": ("eltex", "LTP", "sysobjectid"),
    "exa_pon": ("calix", "E7-2", "sysobjectid"),
    "fiberhome": ("fiberhome", "AN5516-01", "sysdescr"),
    "fiberhome_an5516-01": ("fiberhome", "AN5516-01", "sysdescr"),
    "fiberhome_an5516-06": ("fiberhome", "AN5516-06", "sysdescr"),
    "gwd": ("gwd", "EASYPATH", "sysobjectid"),
    "infinera-pon": ("infinera", "7090", "sysobjectid"),
    "nokia-isam": ("nokia", "ISAM", "sysobjectid"),
    "parks-switch": ("hsgq", "PK-700", "sysdescr"),
    "raisecom": ("raisecom", "ISCOM5508", "sysobjectid"),
    "smartax": ("huawei", "MA5603T", "sysobjectid"),
    "smartax-mdu": ("huawei", "MDU", "sysobjectid"),
    "ubiquoss-pon_9500": ("ubiquoss", "C9500", "sysobjectid"),
    "vsolution_v1600d": ("vsol", "V1600D", "sysdescr"),
    "vsolution_v1600gs": ("vsol", "V1600G", "sysdescr"),
    "zxa10": ("zte", "C320", "sysobjectid"),
    "zxa10_c320": ("zte", "C320", "sysobjectid"),
    "zxa10_c620_excerpt": ("zte", "C620", "sysobjectid"),
}


@dataclass(frozen=True)
class Line:
    """One line of a recording: the snmprec type and the value as octets (for numbers, their decimals)."""

    type: str
    octets: bytes

    @property
    def text(self) -> str:
        """As UTF-8, else latin-1."""
        try:
            return self.octets.decode()
        except UnicodeDecodeError:
            return self.octets.decode("latin-1")

    @property
    def number(self) -> int:
        """The integer."""
        return int(self.octets)


def path_of(name: str) -> Path:
    """The file of a recording; skips the test that asks where the folder is absent."""
    path = WALKS / f"{name}.snmprec"
    if not path.exists():
        pytest.skip(MISSING)
    return path


@cache
def lines_of(name: str) -> dict[str, Line]:
    """OID → line. Read here on its own: what the simulator makes of the file is what is tested."""
    found = {}
    for line in path_of(name).read_bytes().split(b"\n"):
        if line.strip():
            oid, kind, value = line.split(b"|", 2)
            octets = bytes.fromhex(value.decode()) if kind.endswith(b"x") else value
            found[oid.decode()] = Line(kind.decode(), octets)
    return found


def column_of(name: str, root: str) -> dict[str, Line]:
    """Index → line below one column."""
    start = f"{root}."
    return {oid.removeprefix(start): line for oid, line in lines_of(name).items() if oid.startswith(start)}
