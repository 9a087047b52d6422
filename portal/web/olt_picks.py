"""OLTs that a person chose from two lists or named in a URL. Numbers only; whether they exist is asked elsewhere."""

from werkzeug.datastructures import MultiDict

from portal.web.args import LARGEST

MOST = 1000  # OLTs in one go


def chosen(values: "MultiDict[str, str]", name: str = "olt") -> list[int]:
    """The numbers in the field, each once; what is no number is left out."""
    ids = dict.fromkeys(values.getlist(name, type=int))
    return [olt_id for olt_id in ids if 0 < olt_id <= LARGEST][:MOST]


def packed(ids: list[int]) -> str:
    """Numbers as a short text for a URL: 1-50.53."""
    runs: list[list[int]] = []
    for one in sorted(ids):
        if runs and one == runs[-1][1] + 1:
            runs[-1][1] = one
        else:
            runs.append([one, one])
    return ".".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)


def unpacked(text: str) -> list[int]:
    """What `packed` made; what means nothing is left out."""
    found: dict[int, None] = {}
    for part in text.split("."):
        low, _dash, high = part.partition("-")
        if not (low.isascii() and low.isdigit() and (high or low).isascii() and (high or low).isdigit()):
            continue
        first, last = int(low[:10]), int((high or low)[:10])
        found |= dict.fromkeys(range(first, min(last, LARGEST, first + MOST) + 1))
    return [one for one in found if 0 < one <= LARGEST][:MOST]
