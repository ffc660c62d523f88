#include "bench/worker/engine/step_data.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "bench/document_lengths.h"
#include "common/data/token_store_writer.h"
#include "common/files/hash.h"
#include "common/status_macros.h"

namespace coxswain::bench {
namespace {

constexpr int64_t kDistinctSteps = 16;

// One draw of a length: what lies between two quantiles is equally likely.
template <size_t kQuantiles>
double DrawFrom(const int32_t (&quantiles)[kQuantiles], std::mt19937* random) {
  std::uniform_real_distribution<double> uniform(0.0, kQuantiles - 1.0);
  const double at = uniform(*random);
  const auto below = static_cast<size_t>(at);
  const double low = quantiles[below], high = quantiles[std::min(below + 1, kQuantiles - 1)];
  return low + (high - low) * (at - static_cast<double>(below)) + 0.5;
}

double DrawLength(Documents documents, std::mt19937* random) {
  switch (documents) {
    case Documents::kAlpaca:
      return DrawFrom(kAlpacaLengths, random);
    case Documents::kGsm8k:
      return DrawFrom(kGsm8kLengths, random);
    case Documents::kChat:
      return std::max(ChatLengths()(*random), kShortestChat);
    case Documents::kWhole:
      break;
  }
  return std::numeric_limits<double>::infinity();  // what a bin takes
}

std::vector<int64_t> Lengths(const Row& row, int64_t of_unit, std::mt19937* random) {
  const int64_t slots =
      row.micro_bins * row.micro_steps * kDistinctSteps * row.sequence_len * of_unit;
  const auto longest = static_cast<double>(row.sequence_len);
  std::vector<int64_t> lengths;
  for (int64_t sum = 0; sum < slots; sum += lengths.back()) {
    lengths.push_back(static_cast<int64_t>(std::min(DrawLength(row.documents, random), longest)));
  }
  while (static_cast<int64_t>(lengths.size()) % of_unit != 0) lengths.push_back(lengths.back());
  return lengths;
}

// One bit for every token but the last, which has none to predict.
std::vector<uint8_t> AllTargets(int64_t length) {
  std::vector<uint8_t> bits(static_cast<size_t>((length + 7) / 8), 0xFF);
  bits.back() = static_cast<uint8_t>((1u << ((length - 1) % 8)) - 1);
  return bits;
}

}  // namespace

absl::StatusOr<data::PreparedData> RandomDocuments(const Row& row, int64_t vocab,
                                                   const std::string& directory, int64_t of_unit) {
  std::mt19937 random(1);
  const std::string path = directory + "/documents.tokens";
  ASSIGN_OR_RETURN(auto writer, data::TokenStoreWriter::Create(path));
  std::uniform_int_distribution<int32_t> token(0, static_cast<int32_t>(vocab - 1));
  data::PreparedData data;
  for (const int64_t length : Lengths(row, of_unit, &random)) {
    std::vector<int32_t> ids(static_cast<size_t>(length));
    for (int32_t& id : ids) id = token(random);
    RETURN_IF_ERROR(writer->Add(ids, AllTargets(length), 1));
    data.train_stats.documents += 1;
    data.train_stats.tokens += length;
    data.train_stats.targets += length - 1;
  }
  RETURN_IF_ERROR(writer->Finish());
  data.documents_per_unit = of_unit;
  ASSIGN_OR_RETURN(data.train, data::TokenStore::Open(path));
  ASSIGN_OR_RETURN(data.content_hash, Sha256HexOfFile(path));
  return data;
}

void AddBin(int64_t id, std::span<const int64_t> documents, const data::TokenStore& store,
            engine::BinBatch* bins) {
  bins->bin_ids.push_back(id);
  bins->documents_per_bin.push_back(static_cast<int32_t>(documents.size()));
  for (const int64_t document : documents) {
    const std::span<const int32_t> ids = store.tokens(document);
    const std::span<const uint8_t> bits = store.target_bits(document);
    bins->document_lengths.push_back(static_cast<int32_t>(ids.size()));
    bins->token_ids.insert(bins->token_ids.end(), ids.begin(), ids.end());
    for (size_t t = 0; t < ids.size(); ++t) {
      bins->targets.push_back((bits[t / 8] >> (t % 8)) & 1);
    }
  }
}

engine::TrainStep MakeStep(const planner::Recipe& recipe, const data::TokenStore& store,
                           int64_t step, const plan::DocumentLoss& loss, int64_t vocab) {
  engine::TrainStep out;
  out.step = step;
  out.learning_rate = recipe.learning_rate(step);
  out.loss_denominator = 0;
  const double of_target = -std::log(static_cast<double>(std::max<int64_t>(vocab, 1)));
  for (const planner::BinRef& bin : recipe.step_bins(step)) {
    const std::span<const int64_t> documents = recipe.documents(bin);
    AddBin(bin.index, documents, store, &out.bins);
    for (const int64_t document : documents) {
      const auto targets = static_cast<double>(store.targets(document));
      if (!loss.any()) out.loss_denominator += store.targets(document);
      if (loss.reference == "kept") out.bins.references.push_back(targets * of_target);
      out.bins.values.insert(out.bins.values.end(), static_cast<size_t>(loss.values_per_document()),
                             0.0f);
    }
  }
  if (!loss.any()) return out;
  out.loss_denominator =
      static_cast<int64_t>(out.bins.document_lengths.size()) / loss.documents_per_unit();
  return out;
}

}  // namespace coxswain::bench
