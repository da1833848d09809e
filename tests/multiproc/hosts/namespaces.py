"""Hosts made of network namespaces on one switch: ranks in them reach each other only over TCP, as on real
hosts.

Each host has its own network, its own host name and, for each rank, its own process ids. Needs root, iproute2
and util-linux.
"""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

WIRE = str(pathlib.Path(__file__).resolve().parents[2] / "fault" / "wire.py")


class NotPermitted(Exception):
    """The reason why such hosts are not possible here."""


def _ip(*arguments):
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise NotPermitted(f"ip {' '.join(arguments)}: {done.stderr.strip()}")


@contextlib.contextmanager
def _wire(one, other, **fate):
    """A wire (tests/fault/wire.py) between two devices, each NAMESPACE:DEVICE, while the context is open."""
    words = [word for name, value in fate.items() for word in (f"--{name}", str(value))]
    with subprocess.Popen(
        [sys.executable, WIRE, one, other, *words], stdout=subprocess.PIPE, text=True
    ) as carrier:
        try:
            said = carrier.stdout.readline().strip()
            if said != "ready":
                raise NotPermitted(said)
            yield
        finally:
            carrier.kill()


def opened(test_class, hosts):
    """Opens the hosts while the tests of this class run. Exits with 77, which means skipped, if the hosts are
    not possible."""
    try:
        hosts.__enter__()
    except NotPermitted as why:
        print(f"skipped: no such hosts here: {why}")
        sys.exit(77)
    test_class.addClassCleanup(hosts.__exit__)
    return hosts


class Hosts:
    """`with Hosts(2) as hosts:` makes two hosts, host0 and host1.

    name   prefix of the namespaces, for a process that makes several sets of hosts
    wires  faults of the wire between a host and the switch, by the host's number; other wires are perfect
    """

    def __init__(self, count, name=None, wires=None):
        self._name = name or f"dabke{os.getpid()}"
        self._wires = wires or {}
        self._open = contextlib.ExitStack()
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
        self._open.close()
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
            if i in self._wires:
                self._open.enter_context(_wire(f"{switch}:port{i}", f"{host}:eth0", **self._wires[i]))
            else:
                _ip(
                    "-n",
                    switch,
                    "link",
                    "add",
                    f"port{i}",
                    "type",
                    "veth",
                    "peer",
                    "name",
                    "eth0",
                    "netns",
                    host,
                )
            _ip("-n", switch, "link", "set", f"port{i}", "master", "switch", "up")
            # Real hosts have such a bridge too: every host has the same one, and it leads only to the host
            # itself.
            _ip("-n", host, "link", "add", "docker0", "type", "bridge")
            _ip("-n", host, "addr", "add", "172.17.0.1/16", "dev", "docker0")
            _ip("-n", host, "link", "set", "docker0", "up")
            _ip("-n", host, "addr", "add", f"10.77.0.{i + 1}/24", "dev", "eth0")
            _ip("-n", host, "addr", "add", f"fd77::{i + 1}/64", "dev", "eth0", "nodad")
            _ip("-n", host, "link", "set", "eth0", "up")
            _ip("-n", host, "route", "add", "default", "dev", "eth0")

    @property
    def switch(self):
        """The name of the network namespace that has each host's port, port0 and so on."""
        return f"{self._name}s"

    def name_of(self, host):
        """The name of the host's network namespace."""
        return f"{self._name}h{host}"

    @contextlib.contextmanager
    def cut(self, one, other, nets=("10.77.0.", "fd77::")):
        """Drops all frames that these two hosts send to each other at these addresses, without any error.
        Other hosts reach both."""
        pairs = [
            (f"{self._name}h{a}", f"{net}{b + 1}") for a, b in ((one, other), (other, one)) for net in nets
        ]
        for host, address in pairs:  # no device has this hardware address
            _ip(
                "-n",
                host,
                "neigh",
                "replace",
                address,
                "lladdr",
                "02:00:00:00:00:99",
                "dev",
                "eth0",
                "nud",
                "permanent",
            )
        try:
            yield
        finally:
            for host, address in pairs:
                try:
                    _ip("-n", host, "neigh", "del", address, "dev", "eth0")
                except NotPermitted as error:
                    if "No such file" not in str(error):  # the entry is gone if the host was lost meanwhile
                        raise

    def forget_ipv6(self):
        """Removes the IPv6 addresses, so that each host has one address in that network."""
        for i in range(self._count):
            _ip("-n", self.name_of(i), "addr", "del", f"fd77::{i + 1}/64", "dev", "eth0")

    @contextlib.contextmanager
    def far_link(self, one, other, delay, jitter):
        """Another network of these two hosts alone, 10.78.0.0/24. Each direction takes `delay` seconds."""
        name = "far0"
        with _wire(
            f"{self.name_of(one)}:{name}", f"{self.name_of(other)}:{name}", delay=delay, jitter=jitter
        ):
            for host in (one, other):
                _ip("-n", self.name_of(host), "addr", "add", f"10.78.0.{host + 1}/24", "dev", name)
                _ip("-n", self.name_of(host), "link", "set", name, "up")
            yield

    def is_idle(self, host):
        """True if the peers have acknowledged all data that the host has sent over TCP."""
        with_header = subprocess.run(
            ["ip", "netns", "exec", f"{self._name}h{host}", "cat", "/proc/net/tcp"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        sockets = [line.split() for line in with_header.splitlines()[1:]]
        return all(
            fields[4].startswith("00000000:") for fields in sockets if fields[3] == "01"
        )  # 01 is the state ESTABLISHED

    def start(self, places, command, environment=None, one_pid_namespace=False, clocks=None):
        """Starts rank i of a fresh job on host places[i].

        command            a list
        output             `output(rank)` returns it; `tell(rank)` sends input
        one_pid_namespace  all ranks share process ids, as in containers that share one namespace
        clocks             by host number, the seconds that its CLOCK_MONOTONIC is ahead of the kernel's
        """
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
                process = subprocess.Popen(
                    apart + command,
                    env=variables,
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                )
            process.output_file = os.path.join(job, f"out{rank}")
            started.append(process)
        self._ranks += started
        return started


def output(process):
    with open(process.output_file, encoding="utf-8", errors="replace") as file:
        return file.read()


def tell(process):
    """Writes a byte to the rank's stdin."""
    process.stdin.write(b"\n")
    process.stdin.flush()


def kill(process):
    """Kills the rank by SIGKILL: the process is unshare, which takes the rank along."""
    process.send_signal(signal.SIGKILL)
