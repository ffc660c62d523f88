#include "controller/driver/recipe_curriculum.h"

#include <algorithm>
#include <bit>

namespace coxswain::driver {
namespace {

static_assert(std::endian::native == std::endian::little, "token ids travel little-endian");

// Appends `count` bits (LSB first) of `bits` to the first `at` bits of `out`.
void AppendBits(std::span<const uint8_t> bits, int64_t count, int64_t at, std::string* out) {
  out->resize(static_cast<size_t>((at + count + 7) / 8), '\0');
  const int shift = static_cast<int>(at % 8);
  size_t byte = static_cast<size_t>(at / 8);
  for (int64_t done = 0; done < count; done += 8, ++byte) {
    uint8_t value = bits[static_cast<size_t>(done / 8)];
    if (count - done < 8) value &= static_cast<uint8_t>((1u << (count - done)) - 1);
    (*out)[byte] = static_cast<char>(static_cast<uint8_t>((*out)[byte]) | (value << shift));
    if (shift != 0 && byte + 1 < out->size()) {
      (*out)[byte + 1] = static_cast<char>(value >> (8 - shift));
    }
  }
}

BinSize SizeOf(const data::TokenStore& store, int64_t id, std::span<const int64_t> documents) {
  BinSize size{.id = id};
  for (const int64_t document : documents) {
    size.tokens += store.length(document);
    size.targets += store.targets(document);
  }
  return size;
}

}  // namespace

void AppendBin(const data::TokenStore& store, int64_t id, std::span<const int64_t> documents,
               v1::Bins* out) {
  out->add_bin_ids(id);
  out->add_documents_per_bin(static_cast<int32_t>(documents.size()));
  for (const int64_t document : documents) {
    const std::span<const int32_t> tokens = store.tokens(document);
    const int64_t at = static_cast<int64_t>(out->token_ids().size() / sizeof(int32_t));
    out->add_document_lengths(static_cast<int32_t>(tokens.size()));
    out->mutable_token_ids()->append(reinterpret_cast<const char*>(tokens.data()),
                                     tokens.size_bytes());
    AppendBits(store.target_bits(document), static_cast<int64_t>(tokens.size()), at,
               out->mutable_targets());
  }
}

double RecipeCurriculum::passes_after(int64_t finished_steps) const {
  if (finished_steps <= 0) return 0;
  const int64_t last = finished_steps - 1;
  const int64_t pass = recipe_.pass_of_step(last);
  int64_t first = last;
  while (first > 0 && recipe_.pass_of_step(first - 1) == pass) --first;
  const int64_t batch = recipe_.global_batch_bins();
  const int64_t steps = (recipe_.bins_per_pass(pass) + batch - 1) / batch;
  return static_cast<double>(pass) +
         static_cast<double>(finished_steps - first) / static_cast<double>(steps);
}

std::vector<BinSize> RecipeCurriculum::step_bins(int64_t step) const {
  std::vector<BinSize> sizes;
  for (const planner::BinRef& bin : recipe_.step_bins(step)) {
    sizes.push_back(SizeOf(*data_.train, bin.index, recipe_.documents(bin)));
  }
  return sizes;
}

std::vector<BinSize> RecipeCurriculum::eval_bins() const {
  std::vector<BinSize> sizes;
  if (data_.eval == nullptr) return sizes;
  const data::Bins& bins = recipe_.eval_bins();
  for (int64_t bin = 0; bin < bins.size(); ++bin) {
    sizes.push_back(SizeOf(*data_.eval, bin, bins.bin(bin)));
  }
  return sizes;
}

void RecipeCurriculum::FillTrain(int64_t step, int64_t begin, int64_t end, v1::Bins* out) const {
  const std::vector<planner::BinRef> bins = recipe_.step_bins(step);
  for (int64_t i = begin; i < end; ++i) {
    const planner::BinRef& bin = bins[static_cast<size_t>(i)];
    AppendBin(*data_.train, bin.index, recipe_.documents(bin), out);
  }
}

void RecipeCurriculum::FillEval(int64_t begin, int64_t end, v1::Bins* out) const {
  for (int64_t bin = begin; bin < end; ++bin) {
    AppendBin(*data_.eval, bin, recipe_.eval_bins().bin(bin), out);
  }
}

v1::DatasetSummary RecipeCurriculum::summary() const {
  v1::DatasetSummary out;
  const data::DatasetStats& train = data_.train_stats;
  out.set_records_read(train.records_read);
  out.set_documents(train.documents);
  out.set_dropped_too_long(train.dropped_too_long);
  out.set_truncated(train.truncated);
  out.set_bad_records(train.bad_records);
  out.set_no_target(train.no_target);
  out.set_tokens(train.tokens);
  out.set_targets(train.targets);
  out.set_longest_document(train.longest_document);
  out.set_bins(recipe_.bins_per_pass(0));
  out.set_packing_efficiency(recipe_.packing_efficiency());
  out.set_eval_documents(data_.eval_stats.documents);
  out.set_eval_targets(data_.eval_stats.targets);
  return out;
}

}  // namespace coxswain::driver
