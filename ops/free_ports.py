"""Says which of the given tcp:HOST:PORT and udp:HOST:PORT cannot be listened on; keeps nothing open."""

import socket
import sys

KINDS = {"tcp": socket.SOCK_STREAM, "udp": socket.SOCK_DGRAM}


def trouble(kind: str, host: str, port: str) -> str | None:
    """Why `host`:`port` cannot be listened on, or None."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host.strip("[]"), int(port), type=KINDS[kind])[0]
        with socket.socket(family, KINDS[kind]) as probe:
            if kind == "tcp":
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except (OSError, OverflowError, ValueError) as error:
        return getattr(error, "strerror", None) or str(error)
    return None


def main(specifications: list[str]) -> int:
    """Exit status 1 when one of them is taken."""
    found = 0
    for text in specifications:
        kind, _, rest = text.partition(":")
        host, _, port = rest.rpartition(":")
        reason = trouble(kind, host, port)
        if reason is not None:
            sys.stderr.write(f"{kind.upper()} {host}:{port}: {reason}\n")
            found = 1
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
