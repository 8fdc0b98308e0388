"""A man in the middle between two hosts: it reads, changes, repeats or drops bytes.

Each host is connected to a namespace of the middle that has the address of the other host. Connections end there and
are opened again on the other side, so that the middle has the bytes of every stream in its hands.
"""

import contextlib
import ctypes
import os
import select
import socket
import threading

from namespaces import Network, _ip

CLONE_NEWNET = 0x40000000
LISTENING = "0A"  # state in /proc/net/tcp
LIBC = ctypes.CDLL(None, use_errno=True)


@contextlib.contextmanager
def inside(namespace):
    """The calling thread makes its sockets in this network namespace."""
    def enter(fd):
        if LIBC.setns(fd, CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")

    back = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    there = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    try:
        enter(there)
        yield
    finally:
        enter(back)
        os.close(there)
        os.close(back)


def listening(namespace):
    """(address, port) of all TCP listeners in a namespace."""
    found = set()
    with inside(namespace), open("/proc/thread-self/net/tcp") as table:
        for line in table.readlines()[1:]:
            local, state = line.split()[1], line.split()[3]
            address, port = local.split(":")
            if state == LISTENING:
                found.add((".".join(str(b) for b in reversed(bytes.fromhex(address))), int(port, 16)))
    return found


class MiddleNetwork(Network):
    """Hosts 0 and 1 of `Network(2)`, with the middle between them."""

    def _join(self, hosts):
        assert hosts == 2
        for i, name in enumerate(self.names):
            middle = self.middle(i)
            self._add(middle)
            _ip("-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", middle)
            _ip("-n", middle, "link", "set", "lo", "up")
            _ip("-n", middle, "addr", "add", f"{self.address(1 - i)}/24", "dev", "eth0")
            _ip("-n", middle, "link", "set", "eth0", "up")

    def middle(self, host):
        """The namespace that host is connected to."""
        return f"{self.prefix}m{host}"


class Middle:
    """Passes streams on; `change(data)` gets each block of a stream that has carried `after` bytes before, and
    returns what is passed on instead, or None to leave this and all later blocks as they are."""

    def __init__(self, network, change=None, after=0):
        self.network = network
        self.change = change
        self.after = after
        self.seen = bytearray()
        self.changed = 0
        self.listeners = {}  # (host, port): socket
        self.to = {}  # socket: (the socket of the other side, bytes so far)
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _listen(self):
        """The middle listens for a host wherever the other host does."""
        for host in range(2):
            for address, port in listening(self.network.names[1 - host]):
                if address.startswith("127.") or (host, port) in self.listeners:
                    continue
                with inside(self.network.middle(host)):
                    listener = socket.socket()
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind(("", port))
                listener.listen(64)
                self.listeners[host, port] = listener

    def _accept(self, host, port):
        near, _ = self.listeners[host, port].accept()
        with inside(self.network.middle(1 - host)):
            far = socket.socket()
        try:
            far.connect((self.network.address(1 - host), port))
        except OSError:
            near.close()
            far.close()
            return
        for a, b in ((near, far), (far, near)):
            a.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.to[a] = [b, 0]

    def _pass(self, source):
        target, passed = self.to[source]
        try:
            data = source.recv(1 << 16)
            self._listen()  # before the bytes that may announce a port
            self.seen += data if len(self.seen) < 32 << 20 else b""
            self.to[source][1] += len(data)
            if data and self.change and passed >= self.after and (new := self.change(data)) is not None:
                self.changed += 1
                self.change = None
                data = new
                if not data:
                    return
            if data:
                target.sendall(data)
                return
        except OSError:
            pass
        for end in (source, target):  # an end of one direction ends both
            self.to.pop(end, None)
            end.close()

    def _run(self):
        while not self.stopping.is_set():
            self._listen()
            at = {listener: place for place, listener in self.listeners.items()}
            for ready in select.select([*at, *self.to], [], [], 0.005)[0]:
                if ready in at:
                    self._accept(*at[ready])
                elif ready in self.to:
                    self._pass(ready)
        for end in (*self.listeners.values(), *self.to):
            end.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self.thread.join()
