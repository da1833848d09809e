#!/usr/bin/env python3
"""A wire between two hosts made of network namespaces, which loses, delays and reorders frames by a seed.

    wire.py NAMESPACE:DEVICE NAMESPACE:DEVICE [--seed N] [--delay S] [--jitter S] [--loss P] [--reorder P]

Makes the two devices, prints "ready", and carries frames between them until it is killed. The devices end
with it. The kernel need not have netem. The n-th frame of a direction has the same fate in every run.

    --delay    seconds that a frame takes, and --jitter more or less than that; no frame passes another
    --loss     the part of the frames that is lost
    --reorder  the part of the frames that is kept for three delays (5 ms at least) while others pass
"""

import argparse
import ctypes
import fcntl
import heapq
import os
import random
import select
import struct
import sys
import time

LEAST_DETOUR_SECONDS = 0.005
MOST_FRAME_BYTES = 65536


class NotPermitted(Exception):
    """The reason why such a device is not possible here."""


def tap_in(namespace, name):
    """Opens a network device that exists only while it is open, and returns its frames. The calling process
    enters the namespace."""
    with open(f"/run/netns/{namespace}", "rb") as place:
        if ctypes.CDLL(None, use_errno=True).setns(place.fileno(), 0) != 0:
            raise NotPermitted(f"setns: {os.strerror(ctypes.get_errno())}")
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    set_interface, tap_without_header = 0x400454CA, 0x1002  # TUNSETIFF, IFF_TAP | IFF_NO_PI
    fcntl.ioctl(device, set_interface, struct.pack("16sH", name.encode(), tap_without_header))
    return device


class Direction:
    """The arrival time of each frame: a pure function, apart from the time that it is given."""

    def __init__(self, seed, delay, jitter, loss, reorder):
        self.draw = random.Random(seed)
        self.delay, self.jitter, self.loss, self.reorder = delay, jitter, loss, reorder
        self.last = 0.0

    def arrival(self, now):
        """Returns the frame's arrival time, or None if the frame is lost."""
        is_lost, is_late = self.draw.random() < self.loss, self.draw.random() < self.reorder
        due = now + self.draw.uniform(self.delay - self.jitter, self.delay + self.jitter)
        if is_lost:
            return None
        if is_late:
            return due + max(2 * self.delay, LEAST_DETOUR_SECONDS)
        self.last = max(self.last, due)
        return self.last


def carry(devices, directions):
    due, number = [], 0
    while True:
        patience = max(0.0, due[0][0] - time.monotonic()) if due else None
        for device in select.select(devices, [], [], patience)[0]:
            way = devices.index(device)
            frame = os.read(device, MOST_FRAME_BYTES)
            arrival = directions[way].arrival(time.monotonic())
            if arrival is not None:
                heapq.heappush(due, (arrival, number, devices[1 - way], frame))
                number += 1
        while due and due[0][0] <= time.monotonic():
            _, _, device, frame = heapq.heappop(due)
            try:
                os.write(device, frame)
            except OSError:  # the device is full or down: a network may lose frames
                pass


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("ends", nargs=2, metavar="NAMESPACE:DEVICE")
    parser.add_argument("--seed", type=int, default=0)
    for name in ("delay", "jitter", "loss", "reorder"):
        parser.add_argument(f"--{name}", type=float, default=0)
    options = parser.parse_args()
    try:
        devices = [tap_in(*end.split(":")) for end in options.ends]
    except (NotPermitted, OSError) as error:
        print(error, flush=True)
        return 1
    print("ready", flush=True)
    carry(
        devices,
        [
            Direction(f"{options.seed} {way}", options.delay, options.jitter, options.loss, options.reorder)
            for way in (0, 1)
        ],
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
