#include "kernels/cpu/blas_core.h"

#include <dlfcn.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstdlib>

namespace coxswain::kernels::cpu {

const char* VectorUnits() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw")) {
    return "avx512";
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "avx2";
#endif
  return "baseline";
}

std::string BlasCore() {
  auto* name = reinterpret_cast<char* (*)()>(dlsym(RTLD_DEFAULT, "openblas_get_corename"));
  return name == nullptr ? "" : name();
}

std::string_view WiderBlasCore(std::string_view core, std::string_view units) {
  if (core != "Prescott" && core != "Barcelona") return "";
  if (units == "avx512") return "SkylakeX";
  return units == "avx2" ? "Haswell" : "";
}

void StartAgain(char** argv) {
  char path[PATH_MAX] = {};
  // Its path gives the process its name in lists of processes. /proc/self/exe would name it "exe",
  // but leads to the program even where its file was replaced or removed since.
  if (readlink("/proc/self/exe", path, sizeof(path) - 1) > 0) execv(path, argv);
  execv("/proc/self/exe", argv);
}

void UseWidestBlasCore(char** argv) {
  const std::string core(WiderBlasCore(BlasCore(), VectorUnits()));
  if (core.empty() || std::getenv("OPENBLAS_CORETYPE") != nullptr) return;
  setenv("OPENBLAS_CORETYPE", core.c_str(), 1);
  StartAgain(argv);
  std::perror("cannot start again with faster kernels of OpenBLAS: going on with slow ones");
}

}  // namespace coxswain::kernels::cpu
