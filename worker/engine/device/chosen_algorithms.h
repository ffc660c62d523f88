// Describes the algorithms that Prepare chose, for people.
#ifndef COXSWAIN_WORKER_ENGINE_DEVICE_CHOSEN_ALGORITHMS_H_
#define COXSWAIN_WORKER_ENGINE_DEVICE_CHOSEN_ALGORITHMS_H_

#include <string>

namespace coxswain::engine {

// A line "attention: ...". If `gemm_table` (kernels::GemmTable) is not empty, the library and one
// line per product follow: m x n x k, transposes, dtypes, accumulation, microseconds, TFLOP/s. A
// table that is not JSON is left out.
std::string DescribeAlgorithms(const std::string& attention, const std::string& gemm_table);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_DEVICE_CHOSEN_ALGORITHMS_H_
