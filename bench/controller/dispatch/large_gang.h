// What the numbers of a few thousand workers mean for 10,000 GPUs.
#ifndef COXSWAIN_BENCH_CONTROLLER_DISPATCH_LARGE_GANG_H_
#define COXSWAIN_BENCH_CONTROLLER_DISPATCH_LARGE_GANG_H_

#include <nlohmann/json.hpp>

namespace coxswain::bench {

// From the plaintext rows of the most workers: milliseconds of each resource that a step of 10,000
// ranks needs, largest first, with what the design does about it. Prints them and returns {workers,
// from_workers, first_limit, needs: [{resource, ms_per_step, answer}], memory_gib, open_files}.
// Null without a row of document ids.
nlohmann::json AtTenThousand(const nlohmann::json& rows);

}  // namespace coxswain::bench

#endif  // COXSWAIN_BENCH_CONTROLLER_DISPATCH_LARGE_GANG_H_
