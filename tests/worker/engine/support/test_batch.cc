#include "tests/worker/engine/support/test_batch.h"

#include <numeric>
#include <random>

namespace coxswain::engine {

BinBatch RandomBins(const std::vector<std::vector<int32_t>>& lengths, int64_t vocab,
                    uint64_t seed) {
  std::mt19937_64 random(seed);
  BinBatch bins;
  for (size_t bin = 0; bin < lengths.size(); ++bin) {
    bins.bin_ids.push_back(static_cast<int64_t>(bin));
    bins.documents_per_bin.push_back(static_cast<int32_t>(lengths[bin].size()));
    for (int32_t length : lengths[bin]) {
      bins.document_lengths.push_back(length);
      for (int32_t i = 0; i < length; ++i) {
        bins.token_ids.push_back(static_cast<int32_t>(random() % static_cast<uint64_t>(vocab)));
        bins.targets.push_back(i + 1 < length && random() % 3 != 0 ? 1 : 0);
      }
    }
  }
  return bins;
}

BinBatch Slice(const BinBatch& bins, size_t first, size_t count) {
  BinBatch slice;
  size_t document = 0, token = 0, target = 0;
  const auto take = [&](const std::vector<float>& from, std::vector<float>* to) {
    if (!from.empty()) to->push_back(from[target]);
  };
  for (size_t bin = 0; bin < bins.bin_ids.size(); ++bin) {
    const size_t end_document = document + static_cast<size_t>(bins.documents_per_bin[bin]);
    const bool inside = bin >= first && bin < first + count;
    if (inside) {
      slice.bin_ids.push_back(bins.bin_ids[bin]);
      slice.documents_per_bin.push_back(bins.documents_per_bin[bin]);
    }
    for (; document < end_document; ++document) {
      const size_t end = token + static_cast<size_t>(bins.document_lengths[document]);
      if (inside) slice.document_lengths.push_back(bins.document_lengths[document]);
      for (; token < end; ++token) {
        if (inside && bins.targets[token] != 0) {
          take(bins.advantages, &slice.advantages);
          take(bins.old_log_probs, &slice.old_log_probs);
          take(bins.reference_log_probs, &slice.reference_log_probs);
        }
        target += bins.targets[token];
        if (!inside) continue;
        slice.token_ids.push_back(bins.token_ids[token]);
        slice.targets.push_back(bins.targets[token]);
      }
    }
  }
  return slice;
}

BinBatch OneByOne(const BinBatch& bins) {
  BinBatch split = bins;
  split.bin_ids.resize(bins.document_lengths.size());
  std::iota(split.bin_ids.begin(), split.bin_ids.end(), 0);
  split.documents_per_bin.assign(bins.document_lengths.size(), 1);
  return split;
}

int64_t Targets(const BinBatch& bins) {
  return std::accumulate(bins.targets.begin(), bins.targets.end(), int64_t{0});
}

TrainStep MakeStep(int64_t step, const BinBatch& bins, double learning_rate) {
  TrainStep train;
  train.step = step;
  train.bins = bins;
  train.loss_denominator = Targets(bins);
  train.learning_rate = learning_rate;
  return train;
}

}  // namespace coxswain::engine
