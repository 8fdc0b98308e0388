"""Hosts for tests: network namespaces connected by links that can be shaped or cut.

Each host is a namespace with one interface. Two hosts are connected directly, more by a bridge in
its own namespace, so nothing outside changes. Everything is removed on exit, also after an error.
"""

import atexit
import itertools
import os
import subprocess


def _ip(*args, check=True):
    return subprocess.run(["ip", *args], capture_output=True, text=True, check=check)


def permitted():
    """Whether this machine permits network namespaces with links between them."""
    name = f"rgt{os.getpid()}"
    try:
        if _ip("netns", "add", name, check=False).returncode != 0:
            return False
        made = _ip("-n", name, "link", "add", "va", "type", "veth", "peer", "name", "vb", check=False)
        return made.returncode == 0
    except FileNotFoundError:
        return False
    finally:
        _ip("netns", "del", name, check=False)


class Network:
    """`Network(2)`: hosts 0 and 1 with addresses 10.77.0.1 and 10.77.0.2.

    With `nat` each also has an interface without a peer, with the same address on all hosts."""

    numbers = itertools.count(1)

    def __init__(self, hosts, rate=None, nat=False):
        self.prefix = f"rg{os.getpid()}n{next(Network.numbers)}"
        self.switch = f"{self.prefix}s"
        self.names = [f"{self.prefix}h{i}" for i in range(hosts)]
        self.made = []
        atexit.register(self.close)
        for i, name in enumerate(self.names):
            self._add(name)
            _ip("-n", name, "link", "set", "lo", "up")
        for name in self.names if nat else []:
            self._add_nat(name)
        self._join(hosts)
        for i, name in enumerate(self.names):
            _ip("-n", name, "addr", "add", f"{self.address(i)}/24", "dev", "eth0")
            _ip("-n", name, "link", "set", "eth0", "up")
        if rate:
            self.shape(rate)

    def _join(self, hosts):
        if hosts == 2:
            _ip("-n", self.names[0], "link", "add", "eth0", "type", "veth", "peer", "name", "eth0",
                "netns", self.names[1])
            return
        self._add(self.switch)
        _ip("-n", self.switch, "link", "add", "br0", "type", "bridge")
        _ip("-n", self.switch, "link", "set", "br0", "up")
        for i, name in enumerate(self.names):
            _ip("-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", f"port{i}",
                "netns", self.switch)
            _ip("-n", self.switch, "link", "set", f"port{i}", "master", "br0", "up")

    @staticmethod
    def _add_nat(name):
        """The default route, by an address that every host has for itself, as virtual machines often do."""
        _ip("-n", name, "link", "add", "nat0", "type", "veth", "peer", "name", "natx")
        _ip("-n", name, "addr", "add", "10.0.2.15/24", "dev", "nat0")
        for end in ("nat0", "natx"):
            _ip("-n", name, "link", "set", end, "up")
        _ip("-n", name, "route", "add", "default", "via", "10.0.2.2", "dev", "nat0")

    def _add(self, name):
        _ip("netns", "add", name)
        self.made.append(name)

    def address(self, host):
        return f"10.77.0.{host + 1}"

    def shape(self, rate):
        """Limits the outgoing rate of every host, such as '100mbit'; None removes the limit."""
        for name in self.names:
            command = ["ip", "netns", "exec", name, "tc", "qdisc"]
            subprocess.run([*command, "del", "dev", "eth0", "root"], capture_output=True)
            if rate:
                subprocess.run([*command, "add", "dev", "eth0", "root", "tbf", "rate", rate,
                                "burst", "256kb", "latency", "50ms"], check=True)

    def cut(self, host):
        """Takes the far end of a host's link down: packets are dropped without notice."""
        if len(self.names) == 2:
            _ip("-n", self.names[1 - host], "link", "set", "eth0", "down")
        else:
            _ip("-n", self.switch, "link", "set", f"port{host}", "down")

    def uncut(self, host):
        """Ends cut()."""
        if len(self.names) == 2:
            _ip("-n", self.names[1 - host], "link", "set", "eth0", "up")
        else:
            _ip("-n", self.switch, "link", "set", f"port{host}", "up")

    def drop(self, a, b):
        """Drops what host a sends to host b; the other direction works."""
        _ip("-n", self.names[a], "route", "replace", "blackhole", f"{self.address(b)}/32")

    def separate(self, a, b):
        """Drops everything between two hosts; both reach all others."""
        self.drop(a, b)
        self.drop(b, a)

    def isolate(self, host):
        """Drops everything that a host sends to the others or gets from them."""
        for other in range(len(self.names)):
            if other != host:
                self.separate(host, other)

    def heal(self, host, others):
        """Ends isolate(), drop() and separate() between a host and others."""
        for other in others:
            for a, b in ((host, other), (other, host)):
                _ip("-n", self.names[a], "route", "del", "blackhole", f"{self.address(b)}/32", check=False)

    def add_interface(self, name, net):
        """One more link between two hosts: 10.<net>.0.1 and 10.<net>.0.2."""
        _ip("-n", self.names[0], "link", "add", name, "type", "veth", "peer", "name", name, "netns", self.names[1])
        for i, host in enumerate(self.names):
            _ip("-n", host, "addr", "add", f"10.{net}.0.{i + 1}/24", "dev", name)
            _ip("-n", host, "link", "set", name, "up")

    def cut_interface(self, name):
        """Drops all packets of an interface that stays up."""
        for host in self.names:
            subprocess.run(["ip", "netns", "exec", host, "tc", "qdisc", "add", "dev", name, "root", "tbf",
                            "rate", "8bit", "burst", "1", "limit", "1"], check=True)

    def command(self, host, *args):
        return ["ip", "netns", "exec", self.names[host], *map(str, args)]

    def processes(self, host):
        found = _ip("netns", "pids", self.names[host], check=False)
        return [int(pid) for pid in found.stdout.split()]

    def close(self):
        for name in self.made:
            _ip("netns", "del", name, check=False)
        self.made = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
