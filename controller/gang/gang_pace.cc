#include "controller/gang/gang_pace.h"

#include <algorithm>

namespace coxswain::gang {
namespace {

// The lower one of two middle values. `values` is not empty.
double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<int64_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double PeerMedian(const std::vector<double>& values, int rank) {
  std::vector<double> peers = values;
  peers.erase(peers.begin() + rank);
  return Median(std::move(peers));
}

int IndexOfMost(const std::vector<double>& values) {
  return static_cast<int>(std::max_element(values.begin(), values.end()) - values.begin());
}

}  // namespace

double GangPace::Summary::slowest_ratio() const {
  if (slowest < 0 || peer_median_seconds <= 0) return 1;
  return ranks[static_cast<size_t>(slowest)].compute_seconds / peer_median_seconds;
}

GangPace::GangPace(int world_size)
    : world_size_(world_size), reported_(static_cast<size_t>(world_size), false) {}

void GangPace::Add(const InFlight& command) {
  if (windows_.empty() || windows_.back().steps == kWindowSteps) {
    const std::vector<double> zeros(static_cast<size_t>(world_size_), 0.0);
    windows_.push_back({0, zeros, zeros, zeros});
    if (windows_.size() > kWindows) windows_.pop_front();
  }
  Window& window = windows_.back();
  ++window.steps;
  for (size_t rank = 0; rank < command.results.size(); ++rank) {
    const v1::Done& done = *command.results[rank];
    window.compute[rank] += done.seconds().forward() + done.seconds().backward();
    window.idle[rank] += done.idle_seconds();
    window.busy[rank] += done.seconds().step();
  }
}

GangPace::Summary GangPace::summary() const {
  Summary summary;
  std::vector<double> compute(static_cast<size_t>(world_size_), 0.0), idle = compute,
                                                                      busy = compute;
  for (const Window& window : windows_) {
    summary.steps += window.steps;
    for (size_t rank = 0; rank < compute.size(); ++rank) {
      compute[rank] += window.compute[rank];
      idle[rank] += window.idle[rank];
      busy[rank] += window.busy[rank];
    }
  }
  if (summary.steps == 0) return summary;
  const double steps = static_cast<double>(summary.steps);
  std::vector<double> ratios;
  for (size_t rank = 0; rank < compute.size(); ++rank) {
    summary.ranks.push_back({compute[rank] / steps, idle[rank] / steps});
    const double all = idle[rank] + busy[rank];
    ratios.push_back(all > 0 ? idle[rank] / all : 0);
  }
  summary.control_idle_ratio = Median(std::move(ratios));
  if (world_size_ > 1) {
    summary.slowest = IndexOfMost(compute);
    summary.peer_median_seconds = PeerMedian(compute, summary.slowest) / steps;
  }
  return summary;
}

bool GangPace::IsSlow(const Window& window, int rank) {
  return window.compute[static_cast<size_t>(rank)] > kStraggler * PeerMedian(window.compute, rank);
}

std::optional<int> GangPace::NewStraggler() {
  if (world_size_ < 2 || windows_.size() < kWindows || windows_.back().steps < kWindowSteps) {
    return std::nullopt;
  }
  const int rank = IndexOfMost(windows_.back().compute);
  const bool slow = std::all_of(windows_.begin(), windows_.end(),
                                [&](const Window& window) { return IsSlow(window, rank); });
  if (!slow || reported_[static_cast<size_t>(rank)]) return std::nullopt;
  reported_[static_cast<size_t>(rank)] = true;
  return rank;
}

}  // namespace coxswain::gang
