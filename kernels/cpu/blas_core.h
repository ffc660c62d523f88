// The kernels that OpenBLAS multiplies with, chosen for this CPU.
#ifndef COXSWAIN_KERNELS_CPU_BLAS_CORE_H_
#define COXSWAIN_KERNELS_CPU_BLAS_CORE_H_

#include <string>
#include <string_view>

namespace coxswain::kernels::cpu {

// "avx512" (F, DQ, VL and BW), "avx2" (with FMA) or "baseline": what this CPU has.
const char* VectorUnits();

// What openblas_get_corename says; empty where another BLAS is linked or none.
std::string BlasCore();

// The name that OPENBLAS_CORETYPE needs on a CPU with `units`, for OpenBLAS that took `core`; empty
// where its choice is right. OpenBLAS before 0.3.25 multiplies with its kernels for SSE3 on every
// Intel CPU whose model it does not know, and on AMD's likewise, at a quarter of the speed or less.
// Source: https://github.com/OpenMathLib/OpenBLAS/pull/4268 (Prescott),
// https://github.com/OpenMathLib/OpenBLAS/issues/3620 (Barcelona)
std::string_view WiderBlasCore(std::string_view core, std::string_view units);

// Starts this program again in this process, with the environment as it is now. Returns where the
// system refuses; errno says why.
void StartAgain(char** argv);

// Starts this program again with OPENBLAS_CORETYPE set where WiderBlasCore has a name: OpenBLAS
// reads the variable when it is loaded, before main. Keeps a value that the user set. Returns where
// nothing is to change or the program cannot be started again. To be called from main, before a
// thread is started or a file is opened.
void UseWidestBlasCore(char** argv);

}  // namespace coxswain::kernels::cpu

#endif  // COXSWAIN_KERNELS_CPU_BLAS_CORE_H_
