#!/usr/bin/env python3
"""Writes small importance matrices into this folder and has llama-imatrix merge them.

usage: make.py FOLDER-OF-LLAMA-IMATRIX     (Python 3, nothing else)

Inputs are a, b, d (GGUF) and l, m (older format). NAMES.merged.gguf and .dat are what the reference makes of the inputs
NAMES, in that order; a name ending in 100 was merged with a chunk size of 100.
"""
import os, struct, subprocess, sys

BIN = os.path.abspath(sys.argv[1])
os.chdir(os.path.dirname(os.path.abspath(__file__)))


def text(s): return struct.pack("<Q", len(s)) + s.encode()


def write_gguf(path, datasets, chunks, entries):
    keys = text("general.type") + struct.pack("<I", 8) + text("imatrix")
    keys += text("imatrix.datasets") + struct.pack("<IIQ", 9, 8, len(datasets)) + b"".join(map(text, datasets))
    keys += text("imatrix.chunk_count") + struct.pack("<II", 4, chunks) + text("imatrix.chunk_size") + struct.pack("<II", 4, 512)
    table, data = b"", b""
    for name, sums, counts in entries:
        for tensor, values, columns in ((name + ".in_sum2", sums, len(sums) // len(counts)), (name + ".counts", counts, 1)):
            table += text(tensor) + struct.pack("<IQQIQ", 2, columns, len(counts), 0, len(data))
            data += struct.pack(f"<{len(values)}f", *values)
            data += bytes(-len(data) % 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, 2 * len(entries), 4) + keys + table
    open(path, "wb").write(head + bytes(-len(head) % 32) + data)


def write_dat(path, entries, chunks=None, dataset=""):
    b = struct.pack("<i", len(entries))
    for name, count, values in entries:
        b += struct.pack("<i", len(name)) + name.encode() + struct.pack(f"<ii{len(values)}f", count, len(values), *values)
    if chunks is not None: b += struct.pack("<ii", chunks, len(dataset)) + dataset.encode()
    open(path, "wb").write(b)


write_gguf("a.gguf", ["a.txt", "c.txt"], 3, [("blk.0.q.weight", [1, 2, 3, 4.7], [1000]), ("blk.0.e.weight", [1, 2, 3, 4, 5, 6.1], [5, 0, 700]),
    ("only_a", [9, 9], [3]), ("zero", [0, 0], [0])])
write_gguf("b.gguf", ["b.txt", "a.txt"], 4, [("blk.0.e.weight", [.1, .2, .3, 1, 1, 1], [1, 2, 0]), ("blk.0.q.weight", [.3, 1, 1, 1], [2.5]), ("only_b", [7, 1], [5000])])
write_gguf("d.gguf", ["d.txt"], 1, [("blk.0.e.weight", [1, 2, 3, 4, 5, 6], [5])])
write_dat("l.dat", [("blk.0.q.weight", 2, [1, 2, 3, .4]), ("blk.0.e.weight", 3, [1, 1, 2, 2, 3, .3]), ("z", 0, [1, 2])], 9, "old.txt")
write_dat("m.dat", [("z", 1, [.1, 2]), ("blk.0.q.weight", 2, [1, 2, 3, 4]), ("blk.0.q.weight", 1, [1, 1, 1, .1])])

for names, size in [("a", 512), ("b", 512), ("ab", 512), ("ba", 512), ("aa", 512), ("da", 512), ("l", 512), ("m", 512), ("lm", 512), ("al", 512), ("la", 512), ("bl", 100), ("lab", 512)]:
    files = ",".join(n + (".dat" if n in "lm" else ".gguf") for n in names)
    for form in ("gguf", "dat"):
        out = names + ("" if size == 512 else str(size)) + ".merged." + form
        subprocess.run([BIN + "/llama-imatrix", "-m", "none", "-c", str(size), "--in-file", files, "-o", out, "--output-format", form],
                       env=dict(os.environ, LD_LIBRARY_PATH=BIN), check=True, capture_output=True)
