// Loaded before the CUDA runtime: a host with one GPU of another kind, where there is none.
// FAKE_DRIVER: what its driver supports, such as 13000 for CUDA 13.0. FAKE_CAPABILITY: of its GPU,
// x 10. The GPU's name is "Fake GPU".
#include <cuda_runtime_api.h>

#include <cstdlib>
#include <cstring>

extern "C" {

cudaError_t cudaDriverGetVersion(int* version) {
  *version = std::atoi(std::getenv("FAKE_DRIVER"));
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  const int capability = std::atoi(std::getenv("FAKE_CAPABILITY"));
  *properties = {};
  std::strcpy(properties->name, "Fake GPU");
  properties->major = capability / 10;
  properties->minor = capability % 10;
  return cudaSuccess;
}
}
