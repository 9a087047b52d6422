"""The recorded walks of ../shared/olt/walks (GPL, not part of this repository), and which device each one is."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

WALKS = Path(__file__).resolve().parents[3] / "shared" / "olt" / "walks"
MISSING = "../shared/olt/walks is absent: the recorded walks are not part of this repository"

NOTHING, HIDDEN = "nothing", "hidden"
# Recording → brand and model of the catalogue, and what decides: its own identity, sysDescr, or a subtree; NOTHING: the
# catalogue does not know the maker; HIDDEN: the recording has no system group, so a person names brand and model.
DEVICES: dict[str, tuple[str, str, str]] = {
    "axos_e7-2": ("calix", "E7-2-AXOS", "sysobjectid"),
    "bdcom": ("bdcom", "GP3600-16B", "sysobjectid"),
    "cdata": ("cdata", "FD12XX", "subtree"),
    "dasan-nos": ("dasan", "V5812G", "sysobjectid"),
    "dasan-nos_1": ("dasan", "V8240", "sysobjectid"),
    "datacom-dmos_dm4610-hw2": ("datacom", "DM4610", "sysdescr"),
    "datacom-dmos_dm4616": ("datacom", "DM4616", "sysdescr"),
    "edgeosolt": ("ufiber", "UF-OLT", "subtree"),
    "eltex-olt": ("eltex", "LTP", "sysobjectid"),
    "exa_pon": ("calix", "E7-2", "sysobjectid"),
    "fiberhome": ("fiberhome", "AN5516-01", "sysdescr"),
    "fiberhome_an5516-01": ("fiberhome", "AN5516-01", "sysdescr"),
    "fiberhome_an5516-06": ("fiberhome", "AN5516-06", "sysdescr"),
    "gwd": ("gwd", "EASYPATH", "sysobjectid"),
    "huawei-ont_centreon": ("huawei", "", HIDDEN),
    "infinera-pon": ("infinera", "7090", "sysobjectid"),
    "nokia-isam": ("nokia", "ISAM", "sysobjectid"),
    "parks-switch": ("hsgq", "PK-700", "sysdescr"),
    "raisecom": ("raisecom", "ISCOM5508", "sysobjectid"),
    "slms_zhone-mxk1": ("generic", "", NOTHING),
    "smartax": ("huawei", "MA5603T", "sysobjectid"),
    "smartax-mdu": ("huawei", "MDU", "sysobjectid"),
    "snr-olt": ("generic", "", NOTHING),
    "ubiquoss-pon_9500": ("ubiquoss", "C9500", "sysobjectid"),
    "vsolution_v1600d": ("vsol", "V1600D", "sysdescr"),
    "vsolution_v1600gs": ("vsol", "V1600G", "sysdescr"),
    "zxa10": ("zte", "C320", "sysobjectid"),
    "zxa10_c320": ("zte", "C320", "subtree"),
    "zxa10_c620_excerpt": ("zte", "C620", "sysobjectid"),
}


@dataclass(frozen=True)
class Unread:
    """Rows of a recording that no column of the catalogue reads: how many lie below `root`, what they are, and why."""

    recording: str
    root: str
    rows: int
    what: str
    why: str


_NOT_KNOWN = "the catalogue does not know the maker"
_NO_READING = "the catalogue has no reading of this kind"
UNREAD = (
    Unread(
        "axos_e7-2", "1.3.6.1.4.1.6321.1.2.4.2.6.1.1", 412, "206 ONTs: index, dying gasp",
        "each row's OID ends in the index; dying gasp says yes of all 206, also of those that are lit",
    ),
    Unread(
        "axos_e7-2", "1.3.6.1.4.1.6321.1.2.4.2.4.1.1", 18,
        "2 cards: shelf, slot, type as a number, firmware, power level, CLEI code, MAC addresses", _NO_READING,
    ),
    Unread(
        "axos_e7-2", "1.3.6.1.4.1.6321.1.2.4.2.4.2.1", 16, "8 PON ports: index, name",
        "the interface table has both",
    ),
    Unread("axos_e7-2", "1.3.6.1.4.1.6321.1.2.4.2.5.10.0", 1, "serial number of the shelf", _NO_READING),
    Unread(
        "huawei-ont_centreon", "1.3.6.1.4.1.2011.6.128.1.1.2.43.1.10", 3, "row status of 3 ONTs",
        "it tells whether the entry is configured, not how the ONT is; the column that says online or offline is not "
        "in the recording",
    ),
    Unread(
        "huawei-ont_centreon", "1.3.6.1.4.1.2011.6.128.1.1.2.62.1", 6, "Ethernet ports of 3 ONTs: speed, link",
        "keyed by ONT and Ethernet port: the catalogue has no such shape",
    ),
    Unread(
        "huawei-ont_centreon", "1.3.6.1.4.1.2011.6.128.1.1.4.23.1", 18, "packets and bytes of 3 ONTs",
        "the catalogue has traffic columns for UFiber only",
    ),
    Unread("slms_zhone-mxk1", "1.3.6.1.4.1.5504.3.3.1.1", 100, "5 cards: models, firmware, states", _NOT_KNOWN),
    Unread("slms_zhone-mxk1", "1.3.6.1.4.1.5504.3.3.3.1", 125, "load and memory of 5 cards", _NOT_KNOWN),
    Unread("snr-olt", "1.3.6.1.4.1.65268.1.14.2.3.4.1.4", 16, "ONUs online of 16 PON ports", _NOT_KNOWN),
)  # fmt: skip


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
