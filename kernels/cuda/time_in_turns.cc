#include "kernels/cuda/time_in_turns.h"

#include <algorithm>
#include <array>

namespace coxswain::kernels::cuda {
namespace {

// Alternatives take turns: under load the clock falls with the power drawn, so that times are only
// comparable side by side, and what counts is the speed of a hot device.
constexpr int kRounds = 5;
constexpr double kRoundMicroseconds = 2500;

class Stopwatch {
 public:
  Stopwatch() {
    for (cudaEvent_t& event : events_) CheckCuda(cudaEventCreate(&event), "cudaEventCreate");
  }
  ~Stopwatch() {
    for (const cudaEvent_t event : events_) {
      if (event != nullptr) (void)cudaEventDestroy(event);
    }
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  void Start(Stream* stream) { Record(0, stream); }
  // Polls: a blocking wait would hold a lock of the driver that other streams need.
  double StopMicroseconds(Stream* stream) {
    Record(1, stream);
    while (true) {
      const cudaError_t result = cudaEventQuery(events_[1]);
      if (result == cudaSuccess) break;
      if (result != cudaErrorNotReady) CheckCuda(result, "timing a product");
    }
    float milliseconds = 0;
    CheckCuda(cudaEventElapsedTime(&milliseconds, events_[0], events_[1]), "cudaEventElapsedTime");
    return milliseconds * 1e3;
  }

 private:
  void Record(size_t i, Stream* stream) {
    CheckCuda(cudaEventRecord(events_[i], stream->cuda()), "cudaEventRecord");
  }
  std::array<cudaEvent_t, 2> events_{};
};

// Mean of `launches` in a row; 0 when it does not run.
double Microseconds(const Alternative& launch, int launches, Stream* stream) {
  Stopwatch watch;
  watch.Start(stream);
  for (int i = 0; i < launches; ++i) {
    if (!launch()) return 0;
  }
  return watch.StopMicroseconds(stream) / launches;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Launches that fill a round's share of one alternative; 0 when it does not run.
int LaunchesOfRound(const Alternative& launch, Stream* stream) {
  // The first launch loads the kernel.
  if (Microseconds(launch, 1, stream) == 0) return 0;
  const double once = Microseconds(launch, 2, stream);
  return std::clamp(static_cast<int>(kRoundMicroseconds / std::max(once, 1.0)), 2, 64);
}

}  // namespace

std::vector<double> TimeInTurns(const std::vector<Alternative>& alternatives, Stream* stream) {
  std::vector<int> launches;
  for (const Alternative& alternative : alternatives) {
    launches.push_back(LaunchesOfRound(alternative, stream));
  }
  std::vector<std::vector<double>> times(alternatives.size());
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < alternatives.size(); ++i) {
      times[i].push_back(launches[i] == 0 ? 0.0
                                          : Microseconds(alternatives[i], launches[i], stream));
    }
  }
  std::vector<double> medians;
  for (const std::vector<double>& of_one : times) medians.push_back(Median(of_one));
  return medians;
}

}  // namespace coxswain::kernels::cuda
