"""What a spreadsheet makes of a text when it opens a CSV file, how a text is kept from that, and what it left. Pure.

Excel and LibreOffice, in English and Spanish. An apostrophe before a text keeps it: it stays in the file that is saved.
"""

import re

from portal.domain.messages import N_, Message

# What begins so is calculated, also behind blanks; names and descriptions come from devices.
_CALCULATED = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20", "|", "%")
_LONGEST = 255  # of a text that is taken for a number or a date
_MONTH = (
    "january|jan|enero|ene|february|febrero|feb|march|marzo|mar|april|abril|apr|abr|may|mayo|june|junio|jun|july|julio|"
    "jul|august|agosto|aug|ago|september|septiembre|setiembre|sept|sep|set|october|octubre|oct|november|noviembre|nov|"
    "december|diciembre|dec|dic"
)
_BETWEEN = r"[\s./\-]{0,3}"
_CONVERTED = re.compile(
    rf"""
    \(? [$€£]? \s? [.,]? \d+ (?: [.,]\d* ){{0,2}} \)? \s? %?          # 007, 4194312448.10, 1.2.3: a number, or a date
    | \d{{1,3}} (?: [.,\s]\d{{3}} )+ (?: [.,]\d+ )?                   # 192.168.100.200, with points for thousands
    | \d+ (?: [.,]\d+ )? e [+-]? \d+                                  # 12345678000000E1
    | \d{{1,4}} (?: [/:\s\-]+ \d{{1,4}} ){{1,5}} (?: [.,]\d+ )? (?: \s? [ap]\.? \s? m\.? )?  # 1/4, 1/2/3:4, 1-2, 10:20
    | (?: \d{{1,4}} {_BETWEEN} )? (?: {_MONTH} ) \.? {_BETWEEN} \d{{1,4}}                     # MAR1, sep-2
    | \d{{1,4}} {_BETWEEN} (?: {_MONTH} ) \.? (?: {_BETWEEN} \d{{1,4}} )?                     # 2-mar
    | true | false | verdadero | falso
    """,
    re.IGNORECASE | re.ASCII | re.VERBOSE,
)
_CUT_NUMBER = re.compile(r"-?\d(?:[.,]\d+)?E[+-]\d{2,3}", re.IGNORECASE | re.ASCII)
_DATE = re.compile(
    rf"""
    \d{{1,2}} [/.\-] \d{{1,2}} [/.\-] \d{{4}} (?: \s \d{{1,2}}:\d{{2}} (?: :\d{{2}} )? )?
    | \d{{2}} ([/.\-]) \d{{2}} \1 \d{{2}}
    | \d{{4}} - \d{{2}} - \d{{2}} (?: [\sT] \d{{2}}:\d{{2}} (?: :\d{{2}} )? )?
    | \d{{1,2}} [\-\s] (?: {_MONTH} ) \.? (?: [\-\s] \d{{2,4}} )?
    | (?: {_MONTH} ) [\-\s] \d{{2,4}}
    | \d{{1,2}} : \d{{2}} : \d{{2}} (?: \s? [ap]\.? \s? m\.? )?
    """,
    re.IGNORECASE | re.ASCII | re.VERBOSE,
)
_ERROR = re.compile(r"#(?:#{2,}|N/[AD]|[¡¿]?[A-Z/0]{3,8}[!?])", re.IGNORECASE)


def _touched(text: str) -> bool:
    """Whether it would become something else."""
    kept = text.strip()
    if kept.startswith(_CALCULATED) or text.startswith(_CALCULATED):
        return True
    return len(kept) <= _LONGEST and _CONVERTED.fullmatch(kept) is not None


def guard(text: str) -> str:
    """The text as it may be opened: with an apostrophe before it where it would be calculated or converted."""
    return f"'{text}" if _touched(text.lstrip("'")) else text


def unguard(text: str) -> str:
    """What `guard` was given."""
    return text[1:] if text.startswith("'") and _touched(text.lstrip("'")) else text


def destroyed(text: str) -> Message | None:
    """What a spreadsheet left of a cell, where nobody can tell what it was; None for a text that may be meant."""
    if _CUT_NUMBER.fullmatch(text):
        return N_("a long number of which only the first digits are left")
    if _DATE.fullmatch(text):
        return N_("a date or time that a spreadsheet made of something else")
    if _ERROR.fullmatch(text):
        return N_("an error of a formula, or a column that was too narrow")
    return None


def cell(column: int, row: int) -> str:
    """B7: as spreadsheets name it. `column` counts from 0, `row` from 1."""
    letters = ""
    number = column + 1
    while number:
        number, rest = divmod(number - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return f"{letters}{row}"
