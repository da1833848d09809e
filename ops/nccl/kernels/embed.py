"""Writes a file's bytes as a C array: embed.py IN OUT."""

import sys

with open(sys.argv[1], "rb") as file:
    data = file.read()
with open(sys.argv[2], "w") as out:
    out.write("extern const unsigned char dabke_gpu_kernels[];\n")
    out.write("_Alignas(16) const unsigned char dabke_gpu_kernels[] = {\n")
    for at in range(0, len(data), 32):
        out.write(",".join(map(str, data[at : at + 32])) + ",\n")
    out.write("};\n")
