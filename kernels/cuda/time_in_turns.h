// Times of alternatives on the device, side by side.
#ifndef COXSWAIN_KERNELS_CUDA_TIME_IN_TURNS_H_
#define COXSWAIN_KERNELS_CUDA_TIME_IN_TURNS_H_

#include <functional>
#include <vector>

#include "kernels/cuda/stream.h"

namespace coxswain::kernels::cuda {

// An alternative further down a list must be so much faster than one before it.
inline constexpr double kWorthwhile = 0.995;

// Launches an alternative; false: it does not run after all.
using Alternative = std::function<bool()>;
// The median microseconds of each, taken in turns, some 12 ms each; 0 for one that does not run.
// Waits for the stream by polling.
std::vector<double> TimeInTurns(const std::vector<Alternative>& alternatives, Stream* stream);

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_TIME_IN_TURNS_H_
