# The CUDA build: language, architectures, libraries of the toolkit.   -DCOXSWAIN_CUDA=ON
# NN: code for that compute capability. NN-virtual: PTX, which the driver compiles for whatever is newer.
set(COXSWAIN_CUDA_ARCHITECTURES "80;86;89;90a;90-virtual" CACHE STRING
  "compute capabilities of the kernels, at least 80")
if(COXSWAIN_CUDA_ARCHITECTURES MATCHES "90(-virtual)?(;|$)" AND NOT "90a" IN_LIST COXSWAIN_CUDA_ARCHITECTURES)
  message(FATAL_ERROR "COXSWAIN_CUDA_ARCHITECTURES is ${COXSWAIN_CUDA_ARCHITECTURES}: the products of compute "
    "capability 9.0 are compiled for 90a alone; name 90a beside 90 and 90-virtual")
endif()

# CMake 3.25 does not know how nvcc 13 is asked for C++20.
set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
set(CMAKE_CUDA_ARCHITECTURES "")
foreach(architecture ${COXSWAIN_CUDA_ARCHITECTURES})
  if(NOT architecture MATCHES "-virtual$")
    string(APPEND architecture "-real")
  endif()
  list(APPEND CMAKE_CUDA_ARCHITECTURES "${architecture}")
endforeach()
set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)
if(COXSWAIN_CCACHE)
  # What ccache would preprocess of a source is its first architecture alone: code of another one may change and the
  # old object come back. By its list of dependencies it compares the files. The namespace leaves older entries aside.
  set(CMAKE_CUDA_COMPILER_LAUNCHER env CCACHE_DEPEND=1 CCACHE_NAMESPACE=cuda-by-files ${COXSWAIN_CCACHE})
endif()
enable_language(CUDA)
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)

# 12.8 is not enough: its cuBLASLt has no scales of rows and of blocks for products in FP8, and its ptxas orders the tensor
# core products of 29 kernels for 9.0 one behind the other ("wgmma.mma_async instructions are serialized").
find_package(CUDAToolkit 12.9 REQUIRED)
# NCCL's header: the library is loaded by the jobs of several GPUs.
find_path(COXSWAIN_NCCL_INCLUDE nccl.h REQUIRED HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_library(COXSWAIN_CUDNN cudnn REQUIRED HINTS ${CUDAToolkit_LIBRARY_DIR})

set(COXSWAIN_CUDNN_FRONTEND ${CMAKE_SOURCE_DIR}/.deps/cudnn-frontend-1.12.0/include)
if(NOT EXISTS ${COXSWAIN_CUDNN_FRONTEND}/cudnn_frontend.h)
  message(FATAL_ERROR "${COXSWAIN_CUDNN_FRONTEND} is missing: run deploy/fetch-cudnn-frontend.sh")
endif()
