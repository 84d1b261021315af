"""The host names a server answers to, so that no foreign page reaches it by a name that leads here (DNS rebinding)."""

import socket
from contextlib import suppress

ANY_ADDRESS = ("0.0.0.0", "::")


def allowed_hosts(host: str) -> list[str]:
    """Return the names that a server on `host` answers to, as they appear in a URL."""
    others = _names_of_this_machine() if host in ANY_ADDRESS else ()
    return ["localhost", "127.0.0.1", *map(format_for_url, (host, *others))]


def format_for_url(host: str) -> str:
    """Put an IPv6 address into brackets."""
    return f"[{host}]" if ":" in host else host


def _names_of_this_machine() -> set[str]:
    """Return the names and addresses by which other machines reach this one."""
    names = {socket.gethostname(), socket.getfqdn(), "::1"}
    for name in list(names):
        with suppress(OSError):
            names |= {_drop_zone(address[0]) for *_, address in socket.getaddrinfo(name, None)}
    for family, remote in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as connection:
            connection.connect((remote, 9))  # sends nothing, but chooses the address that packets would leave from
            names.add(_drop_zone(connection.getsockname()[0]))
    return names


def _drop_zone(address: str) -> str:
    """Return fe80::1 for fe80::1%eth0, because other machines do not know this machine's zones."""
    return str(address).partition("%")[0]
