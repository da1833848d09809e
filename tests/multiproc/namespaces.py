"""Hosts made of network namespaces on one switch: ranks in them reach each other over TCP alone, as on real hosts.

Each host has its own network, host name and, for each rank, process ids. Needs root, iproute2 and util-linux.
"""

import contextlib
import ctypes
import fcntl
import heapq
import multiprocessing
import os
import random
import select
import shutil
import signal
import struct
import subprocess
import tempfile
import time


class NotPermitted(Exception):
    """Why there can be no such hosts here."""


def _ip(*arguments):
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise NotPermitted(f"ip {' '.join(arguments)}: {done.stderr.strip()}")


def _tap_in(namespace, name):
    """The frames of a network device that is there only while this is open. The calling process goes there."""
    with open(f"/run/netns/{namespace}", "rb") as place:
        if ctypes.CDLL(None, use_errno=True).setns(place.fileno(), 0) != 0:
            raise NotPermitted(f"setns: {os.strerror(ctypes.get_errno())}")
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    set_interface, tap_without_header = 0x400454CA, 0x1002  # TUNSETIFF, IFF_TAP | IFF_NO_PI
    fcntl.ioctl(device, set_interface, struct.pack("16sH", name.encode(), tap_without_header))
    return device


def _carry_frames(namespaces, name, delay, jitter, ready):
    """Between the two devices, each frame `delay` seconds late, give or take `jitter`, and none past another."""
    try:
        devices = [_tap_in(namespace, name) for namespace in namespaces]
    except (NotPermitted, OSError) as error:
        ready.send(str(error))
        return
    ready.send("")
    due, number, last = [], 0, [0.0, 0.0]
    while True:
        patience = max(0.0, due[0][0] - time.monotonic()) if due else None
        for device in select.select(devices, [], [], patience)[0]:
            way = devices.index(device)
            last[way] = max(last[way], time.monotonic() + random.uniform(delay - jitter, delay + jitter))
            heapq.heappush(due, (last[way], number, devices[1 - way], os.read(device, 65536)))
            number += 1
        while due and due[0][0] <= time.monotonic():
            _, _, device, frame = heapq.heappop(due)
            with contextlib.suppress(OSError):  # full, or down: a network may lose frames
                os.write(device, frame)


class Hosts:
    """`with Hosts(2) as hosts:` two hosts, host0 and host1."""

    def __init__(self, count):
        self._name = f"dabke{os.getpid()}"
        self._count = count
        self._made = []
        self._ranks = []
        self.place = None

    def __enter__(self):
        for tool in ("ip", "unshare"):
            if shutil.which(tool) is None:
                raise NotPermitted(f"{tool} is not installed")
        if os.geteuid() != 0:
            raise NotPermitted("only root may make network namespaces")
        try:
            self._build()
        except NotPermitted:
            self.__exit__()
            raise
        self.place = tempfile.mkdtemp(prefix=self._name)
        return self

    def __exit__(self, *_):
        for rank in self._ranks:
            rank.kill()
            rank.wait()
            rank.stdin.close()
        for name in reversed(self._made):
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
        if self.place:
            shutil.rmtree(self.place, ignore_errors=True)

    def _add_namespace(self, name):
        _ip("netns", "add", name)
        self._made.append(name)
        _ip("-n", name, "link", "set", "lo", "up")

    def _build(self):
        switch = f"{self._name}s"
        self._add_namespace(switch)
        _ip("-n", switch, "link", "add", "switch", "type", "bridge")
        _ip("-n", switch, "link", "set", "switch", "up")
        for i in range(self._count):
            host = f"{self._name}h{i}"
            self._add_namespace(host)
            _ip("-n", switch, "link", "add", f"port{i}", "type", "veth", "peer", "name", "eth0", "netns", host)
            _ip("-n", switch, "link", "set", f"port{i}", "master", "switch", "up")
            # As on real hosts: every one of them has this one, and it leads nowhere but to the host itself.
            _ip("-n", host, "link", "add", "docker0", "type", "bridge")
            _ip("-n", host, "addr", "add", "172.17.0.1/16", "dev", "docker0")
            _ip("-n", host, "link", "set", "docker0", "up")
            _ip("-n", host, "addr", "add", f"10.77.0.{i + 1}/24", "dev", "eth0")
            _ip("-n", host, "addr", "add", f"fd77::{i + 1}/64", "dev", "eth0", "nodad")
            _ip("-n", host, "link", "set", "eth0", "up")
            _ip("-n", host, "route", "add", "default", "dev", "eth0")

    def name_of(self, host):
        """Of its network namespace."""
        return f"{self._name}h{host}"

    @contextlib.contextmanager
    def cut(self, one, other):
        """Nothing that these two hosts send to each other arrives, and nobody says so. Others reach both."""
        pairs = [(f"{self._name}h{a}", f"10.77.0.{b + 1}") for a, b in ((one, other), (other, one))]
        for host, address in pairs:  # nobody has this hardware address
            _ip("-n", host, "neigh", "replace", address, "lladdr", "02:00:00:00:00:99", "dev", "eth0", "nud", "permanent")
        try:
            yield
        finally:
            for host, address in pairs:
                _ip("-n", host, "neigh", "del", address, "dev", "eth0")

    @contextlib.contextmanager
    def far_link(self, one, other, delay, jitter):
        """Another network of these two hosts alone, 10.78.0.0/24, slow by so many seconds each way."""
        parent, child = multiprocessing.Pipe()
        name = "far0"
        carrier = multiprocessing.Process(target=_carry_frames, daemon=True,
                                          args=([self.name_of(one), self.name_of(other)], name, delay, jitter, child))
        carrier.start()
        try:
            if why := parent.recv():
                raise NotPermitted(why)
            for host in (one, other):
                _ip("-n", self.name_of(host), "addr", "add", f"10.78.0.{host + 1}/24", "dev", name)
                _ip("-n", self.name_of(host), "link", "set", name, "up")
            yield
        finally:
            carrier.kill()
            carrier.join()

    def is_idle(self, host):
        """Whether all that was sent from there over TCP has been acknowledged."""
        with_header = subprocess.run(["ip", "netns", "exec", f"{self._name}h{host}", "cat", "/proc/net/tcp"],
                                     capture_output=True, text=True, check=True).stdout
        sockets = [line.split() for line in with_header.splitlines()[1:]]
        return all(fields[4].startswith("00000000:") for fields in sockets if fields[3] == "01")  # established

    def start(self, places, command, environment=None, one_pid_namespace=False, clocks=None):
        """Starts rank i of a fresh job on host places[i]; `command` is a list. Output goes to output(rank), input
        comes through tell(rank). `one_pid_namespace`: as containers have it that were told to share one. `clocks`: by how
        many seconds CLOCK_MONOTONIC of a host is ahead of the kernel's, by its number."""
        job = tempfile.mkdtemp(dir=self.place)
        started = []
        for rank, host in enumerate(places):
            variables = dict(
                os.environ,
                DABKE_RANK=str(rank),
                DABKE_SIZE=str(len(places)),
                DABKE_HOSTNAME=f"host{host}",
                DABKE_RENDEZVOUS=f"file:{job}",
                **(environment or {}),
            )
            apart = ["ip", "netns", "exec", f"{self._name}h{host}"]
            apart += ["unshare", *([] if one_pid_namespace else ["--pid"]), "--uts", "--fork", "--kill-child"]
            if clocks is not None:
                apart += ["--time", "--monotonic", str(clocks.get(host, 0))]
            with open(os.path.join(job, f"out{rank}"), "wb") as output:
                process = subprocess.Popen(apart + command, env=variables, stdin=subprocess.PIPE, stdout=output,
                                           stderr=subprocess.STDOUT)
            process.output_file = os.path.join(job, f"out{rank}")
            started.append(process)
        self._ranks += started
        return started


def output(process):
    with open(process.output_file, encoding="utf-8", errors="replace") as file:
        return file.read()


def tell(process):
    """The rank reads a byte."""
    process.stdin.write(b"\n")
    process.stdin.flush()


def kill(process):
    """kill -9 of the rank itself: unshare takes it along."""
    process.send_signal(signal.SIGKILL)
