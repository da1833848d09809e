#!/usr/bin/env python3
"""Another user of the machine, without the job's key, can neither read a running job nor disturb it.

Usage: second_user_test.py DABKERUN DIGITS EPOCHS

Each job runs EPOCHS epochs or more. Exits with 77, which means skipped, where this process cannot act as both
users.
"""

import mmap
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import unittest

DABKERUN = os.path.abspath(sys.argv.pop(1))
DIGITS = os.path.abspath(sys.argv.pop(1))
EPOCHS = int(sys.argv.pop(1))
# The other user may not be able to reach this process's own Python.
PYTHON = shutil.which("python3", path="/usr/bin:/bin") or sys.executable

# The other user's program. Its arguments are the pids, the ports and the shared files of the job. It prints
# everything that it could do and should not.
INTRUDER = r"""
import os, re, socket, sys

pids, ports = ([int(number) for number in text.split(",")] for text in sys.argv[1:3])
files = sys.argv[3:]
assert os.geteuid() != 0

def could(what):
    print(what, flush=True)

# 1. Read: variables, memory, descriptors; the key stands on no command line.
for pid in pids:
    for name in ("environ", "mem", "maps", "fd"):
        try:
            path = f"/proc/{pid}/{name}"
            if os.listdir(path) if name == "fd" else open(path, "rb").read(1):
                could(f"read {path}")
        except OSError:
            pass
    if re.search(rb"[0-9a-f]{64}", open(f"/proc/{pid}/cmdline", "rb").read()):
        could(f"read a key on the command line of {pid}")
for path in files:
    if os.access(path, os.R_OK) or os.access(path, os.W_OK):
        could(f"open {path}")

# 2. End.
for pid in pids:
    try:
        os.kill(pid, 15)
        could(f"signal {pid}")
    except PermissionError:
        pass

# 3. Talk to whatever listens: the store without its key, and noise.
zeros = "0" * 64
requests = [
    b"",
    os.urandom(100_000),
    b"\xff" * 64,
    b"GET /dabke/1/value/epoch?wait_ms=0 HTTP/1.1\r\nHost: x\r\n\r\n",
    f"PUT /dabke/1/value/epoch HTTP/1.1\r\nX-Dabke-Job: {zeros[:32]}\r\nX-Dabke-Nonce: {zeros[:32]}-1\r\n"
    f"X-Dabke-Body: {zeros}\r\nX-Dabke-Proof: {zeros}\r\nContent-Length: 1\r\n\r\n7".encode(),
    b"DELETE /dabke/1/value/ HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
]
for turn in range(8):
    held = []
    for port in ports:
        for request in requests:
            try:
                door = socket.socket()
                door.settimeout(0.3 if turn == 0 else 0.01)
                door.connect(("127.0.0.1", port))
                door.sendall(request)
                if b" 200 " in door.recv(4096)[:20]:
                    could(f"get an answer of port {port} to {request[:40]}")
                held.append(door)  # and stays, so that connections run out if they can
            except OSError:
                pass
"""


def children_of(pid):
    found = [pid]
    for each in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{each}/stat", encoding="ascii", errors="replace") as file:
                parent = int(file.read().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == pid:
            found += children_of(int(each))
    return found


def ports_of(pids):
    sockets = set()
    for pid in pids:
        for name in os.listdir(f"/proc/{pid}/fd"):
            try:
                sockets.add(os.readlink(f"/proc/{pid}/fd/{name}"))
            except OSError:
                pass
    with open("/proc/net/tcp", encoding="ascii") as table:
        lines = [line.split() for line in table.read().splitlines()[1:]]
    return [
        int(fields[1].split(":")[1], 16)
        for fields in lines
        if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets
    ]


def shared_files_of(pids):
    """The files that the processes share: those that are mapped shared and writable, wherever they lie.
    Programs, libraries and files of the C library are not mapped so."""
    files = set()
    for pid in pids:
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="surrogateescape") as maps:
            fields = [line.rstrip("\n").split(None, 5) for line in maps]
            files.update(
                each[5]
                for each in fields
                if len(each) == 6 and each[1].startswith("rw") and each[1].endswith("s")
            )
    return sorted(file for file in files if os.path.exists(file))


class SecondUser(unittest.TestCase):
    def run_beside_an_intruder(self, settings):
        """Runs longer and longer jobs until one of them outlives the intruder, which is slow on a busy
        machine."""
        for turn in range(5):
            if self.outlives_an_intruder(settings, EPOCHS * 2**turn):
                return
        self.fail("each job has ended before the intruder")

    def outlives_an_intruder(self, settings, epochs):
        job = subprocess.Popen(
            [DABKERUN, "-np", "2", "--no-prefix", *settings, DIGITS, "--epochs", str(epochs)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(job.kill)
        self.assertRegex(job.stdout.readline(), "epoch|training")
        pids = children_of(job.pid)
        try:
            intruder = self.intrude(pids)
            outlived = all(os.path.exists(f"/proc/{pid}") for pid in pids) and job.poll() is None
        except FileNotFoundError:  # a file of a process that has ended
            outlived = False
        out, error = job.communicate(timeout=300)
        self.assertEqual((job.returncode, error), (0, ""))
        if outlived:
            self.assertEqual((intruder.returncode, intruder.stdout), (0, ""), intruder.stderr)
            self.assertRegex(out, r"accuracy 9\d\.\d %")
        return outlived

    def intrude(self, pids):
        other = pwd.getpwnam("nobody")
        ports = ports_of(pids)
        self.assertTrue(ports, "nothing of the job listens")
        return subprocess.run(
            [
                PYTHON,
                "-I",
                "-c",
                INTRUDER,
                ",".join(map(str, pids)),
                ",".join(map(str, ports)),
                *shared_files_of(pids),
            ],
            user=other.pw_uid,
            group=other.pw_gid,
            extra_groups=[],
            capture_output=True,
            text=True,
            cwd="/",
            timeout=300,
        )

    def test_the_files_of_a_job_are_those_that_it_shares_wherever_they_lie(self):
        with tempfile.TemporaryDirectory(prefix="ä folder ") as folder:
            mapped = []
            for name, how in (("program", mmap.MAP_PRIVATE), ("shared", mmap.MAP_SHARED)):
                path = os.path.join(folder, name)
                with open(path, "wb+") as file:
                    file.truncate(mmap.PAGESIZE)
                    mapped.append(mmap.mmap(file.fileno(), 0, flags=how))
            self.assertEqual(
                [file for file in shared_files_of([os.getpid()]) if file.startswith(folder)],
                [os.path.join(folder, "shared")],
            )
            for each in mapped:
                each.close()

    def test_ranks_that_share_memory(self):
        self.run_beside_an_intruder([])

    def test_ranks_that_use_tcp(self):
        self.run_beside_an_intruder(["--controller", "tcp", "--cpu-operations", "tcp"])


if __name__ == "__main__":
    try:
        subprocess.run(
            [PYTHON, "-I", "-c", ""],
            user="nobody",
            group=pwd.getpwnam("nobody").pw_gid,
            extra_groups=[],
            cwd="/",
            check=True,
            capture_output=True,
        )
    except (KeyError, OSError, subprocess.CalledProcessError) as why:
        print(f"skipped: this user cannot be another one as well: {why}")
        sys.exit(77)
    unittest.main()
