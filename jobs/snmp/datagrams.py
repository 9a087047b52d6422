"""What came on a socket, looked at before or after a library: when, and whether an SNMPv2c answer is a plain one.

A plain answer is one that every decoder reads alike: an error status of 0, complete, nothing that need not be there,
numbers and names within their bounds. What a library makes of another is its own affair, so a fast driver asks again.
"""

import fcntl
import re
from functools import lru_cache

_STAMP = 0x8907  # SIOCGSTAMPNS of Linux: the moment at which the last datagram that was read or peeked at came in
_NO_STAMP = bytes(16)
_SHORT = 0x7F  # the longest length that one octet holds
# Numbers below 2^32, none padded. A name is checked by all of it but its last octet, which its neighbours share.
_NAME = re.compile(
    rb"(?:[\x00-\x7f]|[\x81-\xff][\x80-\xff]{0,2}[\x00-\x7f]|[\x81-\x8f][\x80-\xff]{3}[\x00-\x7f]){2,127}"
)
_LAST = b"\x01"
_INTEGER, _OCTETS, _OID = 0x02, 0x04, 0x06
# Tag → the fewest and the most octets of a value. Of longer ones than needed some are read differently.
_SIZES = {0x02: (1, 6), 0x41: (1, 5), 0x42: (1, 5), 0x43: (1, 5), 0x46: (1, 9), 0x40: (4, 4), _OCTETS: (0, _SHORT)}
_NEVER = (1, 0)
_LONGEST = 32  # octets of a value that is looked at together with others
_SIZES_OF_NAMES = range(4, 41)
_USUAL_SIZES = range(11, 23)  # octets of the names of ONUs and ports
_WITHOUT_VALUE = frozenset({0x05, 0x80, 0x81, 0x82})  # NULL and the three markers


def last_received(descriptor: int) -> bytes:
    """A word for the moment of the last datagram that was taken from this socket; the same word, the same datagram.

    The first call on a socket is what makes the system note them.
    """
    try:
        return fcntl.ioctl(descriptor, _STAMP, _NO_STAMP)
    except OSError:
        return _NO_STAMP


def request_id(message: bytes) -> bytes | None:
    """The element that numbers a message of SNMPv2c. None where it is not found in its place."""
    try:
        at = _content(message, 0, 0x30, 0)
        at = _content(message, at + 3, _OCTETS, 0) + _size(message, at + 3)[0]  # behind version and community
        at = _content(message, at, message[at], 0)  # of the PDU, whichever it is
        size = 2 + message[at + 1]
        return message[at : at + size] if message[at] == _INTEGER and len(message) >= at + size else None
    except (IndexError, ValueError):
        return None


def answers_another(answer: bytes, asked: bytes) -> bool:
    """Whether this answers another request than that with the number `asked`: it may be late, or sent twice."""
    found = request_id(answer)
    return found is not None and _number(found) != _number(asked)


def _number(element: bytes) -> int:
    return int.from_bytes(element[2:], "big", signed=True)


def is_plain(data: bytes, community: bytes, number: bytes, holes: bool) -> bool:
    """Whether these octets are a plain answer of SNMPv2c to the request with this number.

    `holes`: names without a value may be among the others.
    """
    try:
        at = _content(data, 0, 0x30, len(data))
        head = b"\x02\x01\x01" + _element(_OCTETS, community)
        if not data.startswith(head, at):
            return False
        at = _content(data, at + len(head), 0xA2, len(data))
        if not data.startswith(number + b"\x02\x01\x00\x02\x01\x00", at):
            return False
        return _plain_binds(data, _content(data, at + len(number) + 6, 0x30, len(data)), holes)
    except (IndexError, ValueError):
        return False


def _plain_binds(data: bytes, at: int, holes: bool) -> bool:
    """Whether only plain varbinds begin at `at`. Most are of one port: those go together."""
    end = len(data)
    while at < end:
        run = _run(data, at)
        at = run if run > at else _bind(data, at, holes)
    return at == end


def _run(data: bytes, at: int) -> int:
    """Where the varbinds end that begin at `at`, have short values, and names that differ in the last octet only."""
    size = data[at + 3]
    if size not in _SIZES_OF_NAMES:
        return at
    run = _alike(size).match(data, at)
    return run.end() if run and _plain_beginning(run[1]) else at


@lru_cache(maxsize=len(_SIZES_OF_NAMES))
def _alike(size: int) -> re.Pattern[bytes]:
    """Plain varbinds, one after the other, with names of `size` octets that differ in the last one only."""
    binds = []
    for length in range(_LONGEST + 1):
        tags = bytes(tag for tag, (fewest, most) in _SIZES.items() if fewest <= length <= most)
        begin, end = bytes((4 + size + length, _OID, size)), bytes((length,))
        name_and_tag = b"\\1[\\x00-\\x7f][%s]" % re.escape(tags)
        binds.append(re.escape(begin) + name_and_tag + re.escape(end) + b".{%d}" % length)
    return re.compile(b"(?s)(?=0...(.{%d}))(?:0(?:%s))++" % (size - 1, b"|".join(binds)))


def prepare() -> None:
    """Compile what is compiled at first use, so that a fork inherits it: a millisecond for each size of names."""
    for size in _USUAL_SIZES:
        _alike(size)


def _bind(data: bytes, at: int, holes: bool) -> int:
    """The end of one plain varbind."""
    size = data[at + 1]
    if size > _SHORT:
        return _long_bind(data, at, holes)
    tag_at, following = at + 4 + data[at + 3], at + 2 + size
    tag, length = data[tag_at], data[tag_at + 1]
    if data[at] != 0x30 or data[at + 2] != _OID or tag_at + 2 + length != following:
        raise ValueError
    if data[tag_at - 1] > _SHORT or not _plain_beginning(data[at + 4 : tag_at - 1]):
        raise ValueError
    fewest, most = _SIZES.get(tag, _NEVER)
    if not fewest <= length <= most and not _rare(tag, data[tag_at + 2 : following], holes):
        raise ValueError
    return following


def _long_bind(data: bytes, at: int, holes: bool) -> int:
    """The end of a varbind of more than 127 octets, which holds a text or a long name."""
    start = _content(data, at, 0x30, 0)
    end = start + _size(data, at)[0]
    name = _content(data, start, _OID, 0)
    value = name + _size(data, start)[0]
    if value >= end or data[value - 1] > _SHORT or not _plain_beginning(data[name : value - 1]):
        raise ValueError
    content = _content(data, value, data[value], end)
    if data[value] != _OCTETS and not _rare(data[value], data[content:end], holes):
        raise ValueError
    return end


def _rare(tag: int, content: bytes, holes: bool) -> bool:
    if tag == _OID:
        return len(content) > 1 and content[-1] <= _SHORT and _plain_beginning(content[:-1])
    return holes and not content and tag in _WITHOUT_VALUE


@lru_cache(maxsize=8192)  # the ports of a large OLT, in each of its columns
def _plain_beginning(name: bytes) -> bool:
    return _NAME.fullmatch(name + _LAST) is not None


def _content(data: bytes, at: int, tag: int, end: int) -> int:
    """Where the content of the element at `at` begins. ValueError if it is another, or does not reach to `end`."""
    size, start = _size(data, at)
    if data[at] != tag or (end and start + size != end):
        raise ValueError
    return start


def _size(data: bytes, at: int) -> tuple[int, int]:
    """The size and the beginning of a content."""
    first = data[at + 1]
    if first <= _SHORT:
        return first, at + 2
    if first == 0x81:
        return data[at + 2], at + 3
    if first == 0x82:
        return data[at + 2] << 8 | data[at + 3], at + 4
    raise ValueError


def _element(tag: int, content: bytes) -> bytes:
    size = len(content)
    return bytes((tag, size) if size <= _SHORT else (tag, 0x81, size)) + content
