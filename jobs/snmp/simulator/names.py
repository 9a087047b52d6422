"""Descriptions and serials of generated ONUs, friendly and hostile ones; nothing about OLTs or SNMP lives here."""

from __future__ import annotations

from jobs.snmp.simulator.noise import draw

_FIRST = ("María", "José", "Iñaki", "Begoña", "Ángel", "Lucía", "Rosa", "Óscar", "Pedro", "Ana", "Inés", "Raúl")
_LAST = ("Núñez", "Peña", "García", "Muñoz", "Quispe", "Rojas", "Ibáñez", "Castillo", "Vásquez", "Díaz", "Ordóñez")
_PRINTABLE = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_STREET = ("Av. Grau", "Jr. Ayacucho", "Urb. Los Álamos", "Mz. C Lt. 4", "Calle Real", "Pasaje Unión")

# What a poller has to survive, on the first port of every generated OLT: markup, a formula, latin-1 from old consoles.
_HOSTILE = {
    1: b"<script>alert(1)</script>",
    2: b"=1+1",
    3: "C-004417 Begoña Muñoz".encode("latin-1"),
    4: "C-009120 Iñaki Ordóñez Urb. Peñaflor".encode("latin-1"),
}


def description(seed: int, onu: int, place: int | None) -> bytes:
    """Customer code and name, UTF-8 unless ``place`` is one of the hostile ones; at most 64 octets."""
    if place in _HOSTILE:
        return _HOSTILE[place]
    lot = draw(seed, onu, "customer")
    first, last, street = (_pick(lot >> shift, words) for shift, words in ((20, _FIRST), (30, _LAST), (40, _STREET)))
    text = f"C-{lot % 1_000_000:06d} {first} {last}"
    return (f"{text} {street}" if lot >> 50 & 1 else text).encode()


def _pick(number: int, words: tuple[str, ...]) -> str:
    return words[number % len(words)]


def serial_octets(seed: int, onu: int, place: int | None) -> bytes:
    """The four octets behind the vendor letters of a serial; ``place`` on the first port has some that bite.

    Octets that are a quotation mark and a line feed, a backslash and a NUL, and four that happen to be letters and
    digits: in each of them a client or a database has been seen to stumble.
    """
    drawn = draw(seed, onu, "serial").to_bytes(8, "big")
    if place == 5:
        return bytes((0x22, drawn[0], 0x0A, drawn[1]))
    if place == 6:
        return bytes((0x5C, drawn[0], 0x00, drawn[1]))
    if place == 7:
        return bytes(_PRINTABLE[octet % len(_PRINTABLE)] for octet in drawn[:4])
    return drawn[:4]
