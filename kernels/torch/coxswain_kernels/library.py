"""Loads the ops: torch.ops.coxswain. CUDA's libraries are those of torch, which loads them first."""
import ctypes, glob, os, sys

import torch

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'lib')
CUDA = os.path.join(FOLDER, 'libcoxswain_kernels_cuda.so')


def _load():
    torch.ops.load_library(os.path.join(FOLDER, 'libcoxswain_torch.so'))
    if os.path.exists(CUDA) and torch.cuda.is_available():
        _show_cuda_libraries()
        torch.ops.coxswain.load_cuda(CUDA)


def _show_cuda_libraries():
    """Makes CUDA's libraries of a Python environment known to the loader by their names, which torch does lazily."""
    roots = [os.path.join(p, 'nvidia') for p in sys.path if os.path.isdir(os.path.join(p, 'nvidia'))]
    for name in ('libcudart.so.*', 'libcublas.so.*', 'libcublasLt.so.*', 'libcudnn.so.*'):
        for path in (f for root in roots for f in glob.glob(f'{root}/*/lib/{name}')):
            ctypes.CDLL(path)


_load()
