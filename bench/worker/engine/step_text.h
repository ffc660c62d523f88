// What step_bench prints of a row.
#ifndef COXSWAIN_BENCH_WORKER_ENGINE_STEP_TEXT_H_
#define COXSWAIN_BENCH_WORKER_ENGINE_STEP_TEXT_H_

#include <nlohmann/json.hpp>

namespace coxswain::bench {

// Of a row that has a speed, with the fields of bench/README.md; to stdout.
void PrintRow(const nlohmann::ordered_json& row);

}  // namespace coxswain::bench

#endif  // COXSWAIN_BENCH_WORKER_ENGINE_STEP_TEXT_H_
