"""A CUDA object never comes from the compiler's cache after code of one architecture has changed.

Compiles by the launcher and the compiler of this build: cuda_cache_test.py COMPILER LAUNCHER..."""
import os
import subprocess
import sys
import tempfile

HEADER = """#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
__device__ inline int Value() { return %d; }
#else
__device__ inline int Value() { return %d; }
#endif
"""
SOURCE = """#include "value.cuh"
__global__ void Store(int* to) { *to = Value(); }
"""


class Cache:
    def __init__(self, folder, compiler, launcher):
        self.folder = folder
        self.command = [*launcher, compiler,
                        "--generate-code=arch=compute_80,code=[sm_80]",
                        "--generate-code=arch=compute_90a,code=[sm_90a]", "-MD", "-MT", "store.o",
                        "-MF", "store.d", "-x", "cu", "-c", "store.cu", "-o", "store.o"]
        # A cache of its own and switched on, whatever the caller set for the build.
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith("CCACHE_")}
        self.environment["CCACHE_DIR"] = os.path.join(folder, "cache")
        self.write("store.cu", SOURCE)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        os.utime(path, (1_700_000_000, 1_700_000_000))  # a header of this second is not cached

    def object_of(self, wide, narrow):
        self.write("value.cuh", HEADER % (wide, narrow))
        subprocess.run(self.command, cwd=self.folder, env=self.environment, check=True)
        with open(os.path.join(self.folder, "store.o"), "rb") as file:
            return file.read()


def main():
    compiler, launcher = sys.argv[1], sys.argv[2:]
    if not launcher:
        print("skipped: this build has no compiler cache (ccache)")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        cache = Cache(folder, compiler, launcher)
        first = cache.object_of(wide=1, narrow=0)
        assert cache.object_of(wide=7, narrow=0) != first, "90a changed, and the old object came"
        assert cache.object_of(wide=1, narrow=3) != first, "80 changed, and the old object came"
        assert cache.object_of(wide=1, narrow=0) == first, "the same files make another object"
    return 0


if __name__ == "__main__":
    sys.exit(main())
