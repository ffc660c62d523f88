#include "controller/data/packing/packing.h"

#include <algorithm>
#include <numeric>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "controller/data/packing/fit.h"
#include "controller/data/packing/order.h"

namespace coxswain::data {
namespace {

using config::PackingStrategy;

// Best fit keeps one list head per remaining capacity.
constexpr int64_t kMaxCapacity = int64_t{1} << 26;
constexpr int64_t kMaxWindow = INT32_MAX;

absl::Status CheckArguments(std::span<const int32_t> lengths, int64_t capacity,
                            const config::PackingSpec& spec) {
  if (capacity < 1 || capacity > kMaxCapacity) {
    return absl::InvalidArgumentError(
        absl::StrCat("packing capacity ", capacity, " is outside [1, ", kMaxCapacity, "]"));
  }
  if (spec.window < 1 || spec.window > kMaxWindow) {
    return absl::InvalidArgumentError(
        absl::StrCat("packing window ", spec.window, " is outside [1, ", kMaxWindow, "]"));
  }
  if (spec.max_documents_per_bin < 1) {
    return absl::InvalidArgumentError(absl::StrCat("packing max_documents_per_bin is ",
                                                   spec.max_documents_per_bin, "; at least 1"));
  }
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] < 1 || lengths[i] > capacity) {
      return absl::InvalidArgumentError(absl::StrCat("document ", i, " has ", lengths[i],
                                                     " tokens; packing takes 1 to ", capacity,
                                                     " (sequence_len)"));
    }
  }
  return absl::OkStatus();
}

// Packs one window of the shuffled order, in place, and appends its bins.
class WindowPacker {
 public:
  WindowPacker(std::span<const int32_t> lengths, BinLimits limits, PackingStrategy strategy)
      : lengths_(lengths), strategy_(strategy), limits_(limits), best_fit_(limits) {}

  // `documents` is the window, a part of the shuffled order that begins at position `first`.
  void Pack(uint64_t seed, int64_t pass, int64_t first, std::span<int64_t> documents,
            std::vector<int64_t>& offsets) {
    const int64_t bins = AssignBins(documents);
    ShuffleBins(seed, pass, first, bins);
    GroupByBin(first, documents, offsets);
  }

 private:
  int64_t AssignBins(std::span<const int64_t> documents) {
    const size_t n = documents.size();
    window_lengths_.resize(n);
    bin_of_.resize(n);
    for (size_t i = 0; i < n; ++i) window_lengths_[i] = lengths_[documents[i]];
    switch (strategy_) {
      case PackingStrategy::kBestFit:
        return best_fit_.Assign(window_lengths_, bin_of_);
      case PackingStrategy::kBestFitDecreasing:
        return AssignDecreasing();
      case PackingStrategy::kFirstFit:
        return FirstFit(limits_, window_lengths_, bin_of_);
      case PackingStrategy::kNone:
        break;
    }
    std::iota(bin_of_.begin(), bin_of_.end(), 0);
    return static_cast<int64_t>(n);
  }

  int64_t AssignDecreasing() {
    const size_t n = window_lengths_.size();
    const std::vector<int32_t> order = DecreasingOrder(window_lengths_, limits_);
    std::vector<int32_t> sorted_lengths(n), sorted_bins(n);
    for (size_t i = 0; i < n; ++i) sorted_lengths[i] = window_lengths_[order[i]];
    const int64_t bins = best_fit_.Assign(sorted_lengths, sorted_bins);
    for (size_t i = 0; i < n; ++i) bin_of_[order[i]] = sorted_bins[i];
    return bins;
  }

  // Bins opened early are fuller and, under best-fit decreasing, hold longer documents: the order
  // of training must not show it.
  void ShuffleBins(uint64_t seed, int64_t pass, int64_t first, int64_t bins) {
    order_.resize(bins);
    std::iota(order_.begin(), order_.end(), 0);
    PhiloxShuffle(seed, pass, ShuffleStream::kBins, first, order_);
    place_of_.resize(bins);
    for (int64_t place = 0; place < bins; ++place) place_of_[order_[place]] = place;
  }

  // Counting sort by the bin's place; documents of a bin keep their shuffled order.
  void GroupByBin(int64_t first, std::span<int64_t> documents, std::vector<int64_t>& offsets) {
    begin_.assign(order_.size() + 1, 0);
    for (int32_t bin : bin_of_) ++begin_[place_of_[bin] + 1];
    std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
    for (size_t place = 1; place < begin_.size(); ++place) offsets.push_back(first + begin_[place]);
    grouped_.resize(documents.size());
    for (size_t i = 0; i < documents.size(); ++i) {
      grouped_[begin_[place_of_[bin_of_[i]]]++] = documents[i];
    }
    std::copy(grouped_.begin(), grouped_.end(), documents.begin());
  }

  std::span<const int32_t> lengths_;
  PackingStrategy strategy_;
  BinLimits limits_;
  BestFit best_fit_;
  // Scratch of one window.
  std::vector<int32_t> window_lengths_, bin_of_;
  std::vector<int64_t> order_, place_of_, begin_, grouped_;
};

}  // namespace

absl::StatusOr<Bins> PackDocuments(std::span<const int32_t> lengths, int64_t capacity,
                                   const config::PackingSpec& spec, uint64_t seed, int64_t pass,
                                   const Cancelled& cancelled) {
  RETURN_IF_ERROR(CheckArguments(lengths, capacity, spec));
  Bins bins;
  bins.documents.resize(lengths.size());
  std::iota(bins.documents.begin(), bins.documents.end(), 0);
  PhiloxShuffle(seed, pass, ShuffleStream::kDocuments, 0, bins.documents);

  const BinLimits limits = {static_cast<int32_t>(capacity), spec.max_documents_per_bin};
  WindowPacker packer(lengths, limits, spec.strategy);
  const int64_t n = static_cast<int64_t>(lengths.size());
  for (int64_t first = 0; first < n; first += std::min(spec.window, n - first)) {
    RETURN_IF_ERROR(CheckCancelled(cancelled));
    const int64_t count = std::min(spec.window, n - first);
    packer.Pack(seed, pass, first, std::span(bins.documents).subspan(first, count), bins.offsets);
  }
  return bins;
}

}  // namespace coxswain::data
