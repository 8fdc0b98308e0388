#!/usr/bin/env python3
"""A link between two hosts (network namespaces) that delays, loses or reorders packets, without the kernel's netem.

    with Relay() as network: network.impair(0, delay=0.04, loss=0.02)

`Relay` is a Network(2) whose hosts are connected to a namespace in between, where this file, as a program, passes
frames from one interface to the other. What a host sends is changed from impair() on.
"""

import array
import ctypes
import fcntl
import heapq
import json
import os
import random
import select
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "dist"))
from namespaces import Network, _ip  # noqa: E402

SIOCETHTOOL = 0x8946
OFFLOADS = (0x17, 0x1F, 0x21, 0x24)  # checksums, TSO, scatter-gather, GSO: frames must be what the wire carries
MTU = "9000"
OUTGOING = 4  # kind of packet


def without_offloads(interface):
    """Frames of this interface are at most as long as its MTU and have their checksums."""
    with socket.socket() as any_socket:
        for command in OFFLOADS:
            value = array.array("I", [command, 0])
            pointer = ctypes.c_void_p(value.buffer_info()[0])
            request = interface.encode().ljust(16, b"\0") + bytes(pointer) + b"\0" * 16
            try:
                fcntl.ioctl(any_socket, SIOCETHTOOL, request)
            except OSError:
                pass  # what it does not have cannot be on


class Relay(Network):
    def __init__(self):
        super().__init__(2)
        self.process = subprocess.Popen(["ip", "netns", "exec", self.switch, sys.executable, os.path.abspath(__file__)],
                                        stdin=subprocess.PIPE, text=True)

    def _join(self, hosts):
        self._add(self.switch)
        for i, name in enumerate(self.names):
            _ip("-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", f"port{i}", "netns", self.switch)
            _ip("-n", name, "link", "set", "eth0", "mtu", MTU)
            _ip("-n", self.switch, "link", "set", f"port{i}", "mtu", MTU, "up")
            subprocess.run(["ip", "netns", "exec", name, sys.executable, os.path.abspath(__file__), "eth0"], check=True)

    def impair(self, host, delay=0, loss=0, reorder=0):
        """Seconds by which packets of a host arrive later, and the shares that are lost, or arrive 2 ms after that."""
        self.process.stdin.write(json.dumps([host, delay, loss, reorder]) + "\n")
        self.process.stdin.flush()

    def close(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None
        super().close()

    process = None


def relay():
    ports = []
    for i in range(2):
        without_offloads(f"port{i}")
        port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        port.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 << 20)
        port.bind((f"port{i}", 0))
        ports.append(port)
    impaired = {0: (0, 0, 0), 1: (0, 0, 0)}
    waiting = []  # (due, number, sender, frame)
    number = 0
    commands = os.fdopen(0, "rb", buffering=0)
    while True:
        now = time.monotonic()
        while waiting and waiting[0][0] <= now:
            _, _, sender, frame = heapq.heappop(waiting)
            try:
                ports[1 - sender].send(frame)
            except OSError:
                pass  # an interface that is down loses packets
        timeout = max(0, waiting[0][0] - now) if waiting else None
        for ready in select.select([*ports, commands], [], [], timeout)[0]:
            if ready is commands:
                line = commands.readline()
                if not line:
                    return
                host, *how = json.loads(line)
                impaired[host] = tuple(how)
                continue
            frame, address = ready.recvfrom(65536)
            if address[2] == OUTGOING:
                continue
            sender = ports.index(ready)
            delay, loss, reorder = impaired[sender]
            if loss and random.random() < loss:
                continue
            if reorder and random.random() < reorder:
                delay += 0.002
            number += 1
            heapq.heappush(waiting, (time.monotonic() + delay, number, sender, frame))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        without_offloads(sys.argv[1])
    else:
        relay()
