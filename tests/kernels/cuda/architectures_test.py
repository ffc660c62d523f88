#!/usr/bin/env python3
"""The kernel library holds code for every architecture that the build was asked for.

  architectures_test.py LIBRARY 80 86 89 90a 90-virtual

Reads the fat binaries in the library: a header, then entries of PTX (kind 1) and machine code (kind 2).
Source: CUDA Toolkit, fatbinary.h (magic, version, sizes); the offset of the architecture as cuobjdump shows it.
"""
import struct, sys

MAGIC = struct.pack('<I', 0xBA55ED50)
PTX, CODE = 1, 2


def built(data):
    """(kind, compute capability x 10) of every entry, per fat binary."""
    at = 0
    while (at := data.find(MAGIC, at)) >= 0:
        _, _, header, size = struct.unpack_from('<IHHQ', data, at)
        entry, at = at + header, at + header + size
        kinds = set()
        while entry < at:
            kind, _, header, size = struct.unpack_from('<HHIQ', data, entry)
            kinds.add((kind, struct.unpack_from('<I', data, entry + 28)[0]))
            entry += header + size
        yield kinds


def main():
    library, *asked = sys.argv[1:]
    wanted = {(PTX if name.endswith('-virtual') else CODE, int(name.split('-')[0].rstrip('a'))) for name in asked}
    with open(library, 'rb') as f:
        binaries = list(built(f.read()))
    wrong = [kinds for kinds in binaries if kinds != wanted]
    print(f'{library}: {len(binaries)} fat binaries, asked for {" ".join(asked)}')
    for kinds in wrong:
        print(f'holds {sorted(kinds)} (1: PTX, 2: code), wanted {sorted(wanted)}')
    return 1 if wrong or not binaries else 0


if __name__ == '__main__':
    sys.exit(main())
