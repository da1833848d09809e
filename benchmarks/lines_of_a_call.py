#!/usr/bin/env python3
"""Counts the cache lines that one blocking allreduce of 8 bytes touches, from submit to the end of its wait.

Starts a job over shared memory and lets it make some calls. Then it steps the calling threads of all ranks
through a call, one instruction of each rank in turn, as if each had a core of its own. Prints what rank 0
touched, function by function. Also prints what passes between the ranks: lines of shared memory that one rank
reads after another has written them.

  benchmarks/lines_of_a_call.py build-release                a build of --buildtype=release; needs
                                                             ninja benchmarks/one_call
  benchmarks/lines_of_a_call.py build-release -np 4 --top 0  totals only
  benchmarks/lines_of_a_call.py build-release --data         also each line of data, in the order of first
                                                             touch
  benchmarks/lines_of_a_call.py build-release --files        also each source file; needs a build with line
                                                             numbers, -Dcpp_args=-g1
  benchmarks/lines_of_a_call.py build-release --write-order bindings/c/order_of_call.ld
                                                             the next link puts these functions side by side

Accesses of the kernel within system calls are not counted, nor those of the other threads of a rank. Decoding
needs capstone (Debian: python3-capstone, then run this by /usr/bin/python3). Tracing needs Linux on x86-64.
"""

import argparse
import bisect
import collections
import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from touched_lines import LINE, PAGE, HandOvers, Sources, Space, Step, Sum, Touch, pages, parse_maps, sum_by

CLASSES = [
    "stack",
    "thread",
    "heap",
    "shared segment",
    "libdabke",
    "other libraries",
    "kernel's clock",
    "program",
]

# ---- tracing

PTRACE_GETREGS, PTRACE_SINGLESTEP, PTRACE_CONT, PTRACE_DETACH, PTRACE_SEIZE = 12, 9, 7, 17, 0x4206
REGISTERS = (
    "r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss fs_base gs_base "
    "ds es fs gs"
).split()
WALL = 0x40000000
SYSTEM_CALLS = {
    0: "read",
    1: "write",
    3: "close",
    9: "mmap",
    10: "mprotect",
    11: "munmap",
    12: "brk",
    14: "sigprocmask",
    24: "sched_yield",
    28: "madvise",
    35: "nanosleep",
    202: "futex",
    228: "clock_gettime",
    230: "clock_nanosleep",
    232: "epoll_wait",
    281: "epoll_pwait",
    234: "tgkill",
}
MAY_SLEEP = {"futex", "epoll_wait", "epoll_pwait", "read", "nanosleep", "clock_nanosleep"}


class Registers(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in REGISTERS]


libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long


def ptrace(request, pid, address=None, data=None):
    if libc.ptrace(request, pid, address, data) == -1:
        error = ctypes.get_errno()
        hint = (
            "; where tracing is forbidden, run this as root, in a container with --cap-add=SYS_PTRACE, "
            "and look at "
            "/proc/sys/kernel/yama/ptrace_scope (0 or 1)"
            if request == PTRACE_SEIZE
            else ""
        )
        sys.exit(f"lines_of_a_call: cannot trace process {pid}: {os.strerror(error)}{hint}")


class Decoder:
    """Finds the memory that an instruction touches, from its bytes."""

    IMPLICIT = {
        "push": (-8, True),
        "call": (-8, True),
        "pop": (0, False),
        "ret": (0, False),
    }  # at the stack pointer

    def __init__(self):
        try:
            import capstone
        except ImportError:
            sys.exit(
                "lines_of_a_call: Python's module 'capstone' is missing; "
                "install Debian's python3-capstone and run this by "
                "/usr/bin/python3, or pip install capstone"
            )
        self.x86, self.written = capstone.x86, capstone.CS_AC_WRITE
        self.engine = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
        self.engine.detail = True

    def decode(self, code, ip):
        """Returns (size, [(base, index, scale, displacement, segment, bytes, writes)], is a system call)."""
        one = next(self.engine.disasm(code, ip, 1), None)
        if one is None:
            sys.exit(f"lines_of_a_call: capstone cannot decode {code.hex()} at {ip:#x}; try a newer one")
        mnemonic = one.mnemonic.split()[-1]
        touched = []
        if mnemonic in self.IMPLICIT:
            displacement, writes = self.IMPLICIT[mnemonic]
            touched.append(("rsp", None, 1, displacement, None, 8, writes))
        if mnemonic == "leave":
            touched.append(("rbp", None, 1, 0, None, 8, False))
        if mnemonic not in ("lea", "nop") and not mnemonic.startswith("prefetch"):
            touched += [
                self.operand(one, operand, ip)
                for operand in one.operands
                if operand.type == self.x86.X86_OP_MEM
            ]
        return one.size, touched, mnemonic == "syscall"

    def operand(self, one, operand, ip):
        def name(register):
            return one.reg_name(register) if register else None

        place, base = operand.mem, name(operand.mem.base)
        displacement = place.disp
        if base == "rip":
            base, displacement = None, displacement + ip + one.size
        return (
            base,
            name(place.index),
            place.scale,
            displacement,
            name(place.segment),
            operand.size,
            bool(operand.access & self.written),
        )


class Rank:
    """The calling thread of a rank."""

    def __init__(self, rank, pid, decoder):
        self.rank, self.pid, self.decoder = rank, pid, decoder
        self.memory = None
        self.decoded, self.registers, self.signal = {}, Registers(), 0
        self.space, self.is_stopped = None, False

    def attach(self):
        ptrace(PTRACE_SEIZE, self.pid)
        self.memory = open(f"/proc/{self.pid}/mem", "rb", buffering=0)

    def look_at_maps(self):
        ptrace(PTRACE_GETREGS, self.pid, None, ctypes.byref(self.registers))
        with open(f"/proc/{self.pid}/maps", encoding="utf-8") as file:
            self.space = Space(parse_maps(file.read()), self.registers.rsp, self.registers.fs_base)

    def stopped(self, may_wait):
        """True if the thread has stopped. A signal that is not the step's own
        is delivered with the next step."""
        pid, status = os.waitpid(self.pid, WALL | (0 if may_wait else os.WNOHANG))
        if pid == 0:
            return False
        if not os.WIFSTOPPED(status):
            sys.exit(f"lines_of_a_call: rank {self.rank} ended while it was traced, with status {status}")
        self.signal = os.WSTOPSIG(status)
        if self.signal == signal.SIGTRAP:
            self.signal = 0
        return True

    def go_on_to_signal(self):
        """Runs until the thread raises its SIGTRAP."""
        while True:
            if self.is_stopped:
                ptrace(PTRACE_CONT, self.pid, None, self.signal)
            self.stopped(may_wait=True)
            self.is_stopped = True
            if self.signal == 0:
                return

    def step(self):
        """Starts the next instruction, and returns it as a Step."""
        registers = self.registers
        ptrace(PTRACE_GETREGS, self.pid, None, ctypes.byref(registers))
        ip = registers.rip
        if ip not in self.decoded:
            try:
                self.decoded[ip] = self.decoder.decode(os.pread(self.memory.fileno(), 15, ip), ip)
            except OSError:  # the vsyscall page, or the end of a mapping
                self.decoded[ip] = self.decoder.decode(
                    os.pread(self.memory.fileno(), PAGE - ip % PAGE, ip), ip
                )
        size, touched, is_call = self.decoded[ip]
        touches = [Touch(self.place(*one[:5]), one[5], one[6]) for one in touched]
        number = registers.rax
        call = SYSTEM_CALLS.get(number, f"system call {number}") if is_call else None
        ptrace(PTRACE_SINGLESTEP, self.pid, None, self.signal)
        return Step(self.rank, ip, size, touches, call)

    def place(self, base, index, scale, displacement, segment):
        registers = self.registers
        address = displacement
        if base is not None:
            address += getattr(registers, base, 0)
        if index is not None:
            address += getattr(registers, index, 0) * scale
        if segment == "fs":
            address += registers.fs_base
        return address & (1 << 64) - 1


class Symbols:
    """Finds the function of an address."""

    def __init__(self, demangled=True):
        self.files, self.options = {}, ["--defined-only"] + ["-C"] * demangled

    def of_file(self, path):
        if path not in self.files:
            found = {}
            for arguments in (["-D"], []):
                done = subprocess.run(
                    ["nm", *self.options, *arguments, path], capture_output=True, text=True, check=False
                )
                for row in done.stdout.splitlines():
                    address, kind, *name = row.split(None, 2)
                    if kind in "tTwWiu" and name:
                        found[int(address, 16)] = name[0]
            addresses = sorted(found)
            self.files[path] = addresses, [found[one] for one in addresses]
        return self.files[path]

    def name(self, space, address):
        mapping = space.find(address)
        if mapping is None or not os.path.isfile(mapping.path):
            return mapping.path if mapping else "?"
        base = min(one.begin - one.offset for one in space.mappings if one.path == mapping.path and one.inode)
        addresses, names = self.of_file(mapping.path)
        index = bisect.bisect_right(addresses, address - base) - 1
        name = names[index] if index >= 0 else "?"
        library = os.path.basename(mapping.path).split(".so")[0]
        return name if library == "libdabke" else f"{name} ({library})"


class Tracing:
    """Steps all ranks, from the signal before a call into the call, and to its end."""

    def __init__(self, ranks, symbols):
        self.ranks, self.symbols = ranks, symbols
        self.hand_overs = HandOvers()
        self.entries = {}

    def entry_of(self, rank):
        if rank.rank not in self.entries:
            path = next(one.path for one in rank.space.mappings if "/libdabke.so" in one.path)
            base = min(
                one.begin - one.offset for one in rank.space.mappings if one.path == path and one.inode
            )
            addresses, names = self.symbols.of_file(path)
            self.entries[rank.rank] = base + addresses[names.index("dabke_allreduce")]
        return self.entries[rank.rank]

    def one_call(self):
        """Returns the steps of each rank within the call."""
        for rank in self.ranks:
            rank.look_at_maps()
        steps = {one.rank: [] for one in self.ranks}
        last_seen = time.monotonic()
        back = {}  # rank: the return address of the call, and the stack pointer there
        going, asleep = list(self.ranks), set()
        while going:
            for rank in [one for one in going if one.rank not in asleep]:
                step = rank.step()
                if rank.rank not in back and step.ip == self.entry_of(rank):
                    stack = rank.registers.rsp
                    back[rank.rank] = (
                        int.from_bytes(os.pread(rank.memory.fileno(), 8, stack), "little"),
                        stack + 8,
                    )
                elif back.get(rank.rank) == (step.ip, rank.registers.rsp):
                    going.remove(rank)
                if rank.rank in back and rank in going:
                    steps[rank.rank].append(step)
                    self.hand_overs.add(step, rank.space)
                if step.call in MAY_SLEEP:
                    asleep.add(rank.rank)
                else:
                    rank.stopped(may_wait=True)
                    last_seen = time.monotonic()
            for rank in [one for one in self.ranks if one.rank in asleep]:
                if rank.stopped(may_wait=False):
                    asleep.discard(rank.rank)
                    last_seen = time.monotonic()
            if time.monotonic() - last_seen > 60:
                sys.exit("lines_of_a_call: all ranks have slept for 60 s within a call")
        return steps


def traced_calls(arguments):
    """Runs the job. Returns the steps of each traced call, the ranks, and the hand-overs of the last call."""
    decoder, symbols = Decoder(), Symbols()
    program = os.path.join(arguments.build, "benchmarks", "one_call")
    launcher = os.path.join(arguments.build, "launcher", "dabkerun")
    for path in (program, launcher):
        if not os.access(path, os.X_OK):
            sys.exit(
                f"lines_of_a_call: there is no {path}; "
                f"ninja -C {arguments.build} benchmarks/one_call launcher/dabkerun"
            )
    folder = tempfile.mkdtemp(prefix="lines_of_a_call.")
    for rank in range(arguments.np):
        os.mkfifo(f"{folder}/go.{rank}")
    job = subprocess.Popen(
        [
            launcher,
            "-np",
            str(arguments.np),
            program,
            folder,
            str(arguments.warm),
            str(arguments.calls),
            str(arguments.pause),
        ],
        env={**os.environ, "DABKE_CPU_OPERATIONS": "shm"},
    )
    try:
        ranks = [Rank(rank, pid_of(folder, rank, job), decoder) for rank in range(arguments.np)]
        for rank in ranks:
            rank.attach()
            with open(f"{folder}/go.{rank.rank}", "w", encoding="utf-8") as go:
                go.write("go\n")
        tracing, calls = Tracing(ranks, symbols), []
        for _ in range(arguments.calls):
            for rank in ranks:
                rank.go_on_to_signal()
            tracing.hand_overs.reads.clear()
            tracing.hand_overs.writes.clear()
            calls.append(tracing.one_call())
        for rank in ranks:
            rank.go_on_to_signal()
            ptrace(PTRACE_DETACH, rank.pid)
        if job.wait(60) != 0:
            sys.exit(f"lines_of_a_call: the job ended with {job.returncode}")
        return calls, ranks, tracing.hand_overs, symbols
    finally:
        if job.poll() is None:
            job.terminate()
            job.wait()
        shutil.rmtree(folder)


def pid_of(folder, rank, job):
    path = f"{folder}/pid.{rank}"
    while job.poll() is None:
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                text = file.read()
            if text.endswith("\n"):
                return int(text)
        time.sleep(0.01)
    sys.exit(
        f"lines_of_a_call: the job ended with {job.returncode} before rank {rank} was there to be traced"
    )


# ---- the report


def print_functions(steps, space, symbols, top):
    sums = sum_by(steps, lambda step: symbols.name(space, step.ip))
    print(
        f"{'code':>5} {'data':>5} {'instr.':>7}  "
        "function                    (lines of 64 bytes, each counted in all that touch it)"
    )
    order = sorted(sums.items(), key=lambda one: -len(one[1].code) - len(one[1].data))
    for name, one in order[:top]:
        calls = (
            "  " + ", ".join(f"{count} x {call}" for call, count in one.calls.items()) if one.calls else ""
        )
        print(f"{len(one.code):5} {len(one.data):5} {one.instructions:7}  {name[:110]}{calls}")
    if len(order) > top:
        print(f"                     and {len(order) - top} more functions")


def print_totals(total, space):
    def of_library(line):
        mapping = space.find(line * LINE)
        return os.path.basename(mapping.path).split(".so")[0] if mapping else "?"

    by_library = collections.defaultdict(list)
    for line in total.code:
        by_library[of_library(line)].append(line)
    print(f"{'lines':>7} {'pages':>6} {'written':>8}")
    for name, some in sorted(by_library.items(), key=lambda one: -len(one[1])):
        print(f"{len(some):7} {pages(some):6} {'':8}  code of {name}")
    print(f"{len(total.code):7} {pages(total.code):6} {'':8}  code")
    for name, (lines, written, some_pages) in sorted(
        total.by_class(space).items(), key=lambda one: CLASSES.index(one[0])
    ):
        print(f"{lines:7} {some_pages:6} {written:8}  data: {name}")
    print(f"{len(total.data):7} {pages(total.data):6} {sum(total.data.values()):8}  data")
    calls = ", ".join(f"{count} x {call}" for call, count in total.calls.items()) or "none"
    print(
        f"{len(total.code) + len(total.data):7} lines in all, {total.instructions} instructions, "
        f"system calls: {calls}"
    )


def print_data(steps, space, symbols):
    seen = {}
    for step in steps:
        for touch in step.touches:
            for line in touch.lines():
                writes, names = seen.setdefault(line, [False, {}])
                seen[line][0] = writes or touch.writes
                names[symbols.name(space, step.ip)] = True
    print("the lines of data, in the order of first touch:")
    for line, (writes, names) in seen.items():
        print(
            f"  {line * LINE:#14x} {space.class_of(line * LINE):15} {'written' if writes else 'read':8}"
            f"{'; '.join(name[:60] for name in list(names)[:4])}"
        )


def sources_of(call, space):
    """Returns the product's source files that these steps have run."""
    library = next(one.path for one in space.mappings if "/libdabke.so" in one.path)
    base = min(one.begin - one.offset for one in space.mappings if one.path == library and one.inode)
    mappings = {id(one) for one in space.mappings if one.path == library}
    steps = [step.ip - base for step in call if id(space.find(step.ip)) in mappings]
    addresses = list(dict.fromkeys(steps))
    done = subprocess.run(
        ["addr2line", "-e", library],
        input="\n".join(map(hex, addresses)),
        capture_output=True,
        text=True,
        check=True,
    )
    path_of = dict(zip(addresses, (row.rpartition(":")[0] for row in done.stdout.splitlines())))
    sources = Sources()
    for address in steps:
        sources.add(path_of[address])
    return sources


def print_files(sources):
    own = sources.with_code()
    print(f"{'.cc':>7} {'.h':>7}  source file                 (instructions)")
    for name, (code, header) in sources.items():
        if code:
            print(f"{code:7} {header:7}  {name}")
    print("headers alone: " + ", ".join(name for name in sources if name not in own))
    print(f"{len(own)} source files, and {len(sources) - len(own)} of which only the header runs")


def print_hand_overs(hand_overs):
    keys = hand_overs.reads | hand_overs.writes
    print(
        f"between the ranks: {len(keys)} lines; "
        f"read {hand_overs.reads.total()} times after another rank had written them, "
        f"written {hand_overs.writes.total()} times while another rank had them"
    )
    for path, inode, offset in sorted(keys):
        key = path, inode, offset
        print(
            f"  {os.path.basename(path)} + {offset:#x}: "
            f"read {hand_overs.reads[key]}, written {hand_overs.writes[key]}"
        )


ORDER = """/* The functions of a blocking call on their way from submit to wait, in that order: \
side by side they lie in a third of the
   pages. What is not there, or has another name, lies where it did. Written, and to be renewed, by
   benchmarks/lines_of_a_call.py BUILD --write-order THIS. */
SECTIONS {{
  .text.call : ALIGN(64) {{
{}
  }}
}} INSERT BEFORE .text;
"""


def section_of(name):
    """Returns the sections of a function.

    They include what the compiler has made of it, and the versions of Highway for any processor.
    """
    name = re.sub(
        r"(\d+)(N_[A-Z][A-Z0-9_]*)", lambda found: "*" + found[2][int(found[1]) :], name.split(".")[0]
    )
    return f"    *(.text.{name}*)"


def write_order(path, calls, ranks):
    """Writes the linker's script: the functions that any rank has called, in the order of first calls."""
    order = {}
    for rank in ranks:
        library = next(one.path for one in rank.space.mappings if "/libdabke.so" in one.path)
        names = Symbols(demangled=False)
        for step in calls[-1][rank.rank]:
            mapping = rank.space.find(step.ip)
            if mapping and mapping.path == library:
                order[section_of(names.name(rank.space, step.ip))] = True
    order.pop(section_of("_init"), None)  # the table through which other libraries are called
    with open(path, "w", encoding="utf-8") as file:
        file.write(ORDER.format("\n".join(order)))
    print(f"{len(order)} functions in {path}")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("build", help="a build folder")
    parser.add_argument("-np", type=int, default=2, help="ranks (default %(default)s)")
    parser.add_argument("--warm", type=int, default=300, help="calls before (default %(default)s)")
    parser.add_argument(
        "--calls", type=int, default=4, help="calls that are traced; the last is shown (default %(default)s)"
    )
    parser.add_argument(
        "--pause", type=int, default=0, help="ms of sleep before each call (default %(default)s)"
    )
    parser.add_argument("--rank", type=int, default=0, help="whose call is shown (default %(default)s)")
    parser.add_argument("--top", type=int, default=40, help="functions that are shown (default %(default)s)")
    parser.add_argument("--data", action="store_true", help="each line of data, too")
    parser.add_argument(
        "--files", action="store_true", help="each source file of the product, too, in the order of first use"
    )
    parser.add_argument(
        "--write-order",
        metavar="FILE",
        help="writes the linker's script of what the ranks have called, and no table",
    )
    chosen = parser.parse_args()
    if chosen.calls < 1 or not 0 <= chosen.rank < chosen.np:
        parser.error(
            f"--calls {chosen.calls} --rank {chosen.rank}: "
            f"at least one call, and a rank from 0 to {chosen.np - 1}"
        )
    calls, ranks, hand_overs, symbols = traced_calls(chosen)
    if chosen.write_order:
        return write_order(chosen.write_order, calls, ranks)
    steps, space = calls[-1][chosen.rank], ranks[chosen.rank].space
    if chosen.top:
        print_functions(steps, space, symbols, chosen.top)
    if chosen.data:
        print_data(steps, space, symbols)
    if chosen.files:
        print_files(sources_of(steps, space))
    total = Sum()
    for step in steps:
        total.add(step)
    print_totals(total, space)
    print(
        "instructions of each traced call of this rank: "
        + ", ".join(str(len(one[chosen.rank])) for one in calls)
    )
    print_hand_overs(hand_overs)
    return None


if __name__ == "__main__":
    main()
