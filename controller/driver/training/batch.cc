#include "controller/driver/training/batch.h"

#include <algorithm>

namespace coxswain::driver {
namespace {

// Above this many bytes of tokens and mask a rank that maps the token stores gets document ids.
constexpr int64_t kMostInlineBytes = 64 << 10;

}  // namespace

v1::DocumentScalars DocumentScalarsOf(int64_t units, int64_t nll_rows) {
  v1::DocumentScalars scalars;
  if (nll_rows > 0) {
    scalars.set_nll_ratio(static_cast<double>(units) / static_cast<double>(nll_rows));
  }
  return scalars;
}

Batch DealBatch(int64_t step, std::span<const BinSize> bins, const gang::Gang& gang,
                const BinWork& work, int64_t micro_batch_bins) {
  Batch batch{.step = step};
  const std::vector<std::vector<int64_t>> hands = DealBins(bins, gang.world_size(), work);
  batch.bins.resize(hands.size());
  batch.forms.resize(hands.size(), BinForm::kTokens);
  size_t most = 0;
  for (size_t rank = 0; rank < hands.size(); ++rank) {
    int64_t tokens = 0;
    batch.bins[rank].reserve(hands[rank].size());
    for (const int64_t place : hands[rank]) {
      batch.bins[rank].push_back(bins[place].id);
      batch.targets += bins[place].targets;
      batch.denominator += bins[place].units;
      batch.nll_rows += bins[place].nll_rows;
      tokens += bins[place].tokens;
    }
    batch.tokens += tokens;
    most = std::max(most, hands[rank].size());
    // Ids of 4 bytes and a bit of the mask each.
    const bool large = tokens * 4 + tokens / 8 > kMostInlineBytes;
    if (large && gang.ranks[rank].maps_tokens) batch.forms[rank] = BinForm::kDocumentIds;
  }
  if (batch.denominator == 0) batch.denominator = batch.targets;
  batch.micro_steps = (static_cast<int64_t>(most) + micro_batch_bins - 1) / micro_batch_bins;
  return batch;
}

}  // namespace coxswain::driver
