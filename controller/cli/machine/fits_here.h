// Whether a plan fits the memory of this machine.
#ifndef COXSWAIN_CONTROLLER_CLI_MACHINE_FITS_HERE_H_
#define COXSWAIN_CONTROLLER_CLI_MACHINE_FITS_HERE_H_

#include <cstdint>
#include <string>

namespace coxswain::cli {

// Empty when `workers` CPU workers of `worker_bytes` each fit. Else one line that says they do not.
// `machine_bytes`: memory of this machine. `plannable_bytes`: memory that one worker may plan with
// there.
std::string DoesNotFitHere(uint64_t worker_bytes, int64_t workers, uint64_t machine_bytes,
                           uint64_t plannable_bytes);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_MACHINE_FITS_HERE_H_
