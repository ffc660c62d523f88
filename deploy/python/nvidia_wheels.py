"""Prints the lines of METADATA by which a wheel takes CUDA's libraries from NVIDIA's wheels on PyPI: each not older than
the library that a program was built with, and of the same major version.

  deploy/python/nvidia_wheels.py PROGRAM
"""
import ctypes, subprocess, sys

# Library: (wheel, the function that tells its version, whether by a pointer, digits of minor and patch number).
LIBRARIES = {
    'libcudart.so.13': ('nvidia-cuda-runtime', 'cudaRuntimeGetVersion', True),
    'libcublasLt.so.13': ('nvidia-cublas', 'cublasLtGetVersion', False),
    'libcudnn.so.9': ('nvidia-cudnn-cu13', 'cudnnGetVersion', False),
    'libnccl.so.2': ('nvidia-nccl-cu13', 'ncclGetVersion', True),
}


def dotted(library, number):
    """13000 of the runtime is 13.0; 130100 of cuBLAS 13.1.0; 91900 of cuDNN 9.19.0; 22809 of NCCL 2.28.9."""
    if library.startswith('libcudart'):
        return f'{number // 1000}.{number % 1000 // 10}'
    return f'{number // 10000}.{number // 100 % 100}.{number % 100}'


def paths_of(program):
    """{library: its path} as the loader finds them for the program."""
    lines = subprocess.run(['ldd', program], capture_output=True, text=True, check=True).stdout.splitlines()
    return {words[0]: words[2] for words in map(str.split, lines) if len(words) > 2 and words[1] == '=>'}


def version_of(library, path):
    _, function, by_pointer = LIBRARIES[library]
    call = getattr(ctypes.CDLL(path), function)
    if not by_pointer:
        call.restype = ctypes.c_size_t
        return dotted(library, call())
    number = ctypes.c_int()
    call(ctypes.byref(number))
    return dotted(library, number.value)


def main(program):
    found = paths_of(program)
    for library, (wheel, _, _) in LIBRARIES.items():
        # A program loads NCCL by its name, when a job has several GPUs.
        version = version_of(library, found.get(library, library))
        print(f'Requires-Dist: {wheel} >={version},<{int(version.split(".")[0]) + 1}')


if __name__ == '__main__':
    main(*sys.argv[1:])
