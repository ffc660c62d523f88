#include "controller/driver/training/recipe_curriculum.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "common/model/flops.h"
#include "common/status_macros.h"

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

// Rows of the nll term of the chosen document of a pair.
int64_t NllRows(const plan::DocumentLoss& loss, const data::TokenStore& store, int64_t chosen) {
  if (!loss.has_nll()) return 0;
  return loss.nll_has_prompt() ? store.length(chosen) - 1 : store.targets(chosen);
}

// Of the documents of a bin whose loss is taken.
BinSize SizeOf(int64_t id, std::span<const int64_t> documents, const data::TokenStore& store,
               const model::ModelConfig& model, const plan::DocumentLoss& loss) {
  BinSize size{.id = id};
  for (const int64_t document : documents) {
    size.tokens += store.length(document);
    size.targets += store.targets(document);
    size.attention_flops += model::AttentionFlops(model, store.length(document));
  }
  if (!loss.any()) return size;
  const auto unit = static_cast<size_t>(loss.documents_per_unit());
  size.units = static_cast<int64_t>(documents.size() / unit);
  for (size_t i = 0; i < documents.size(); i += unit) {
    size.nll_rows += NllRows(loss, store, documents[i]);
  }
  return size;
}

v1::TokenStoreFile FileOf(const data::TokenStore& store) {
  v1::TokenStoreFile file;
  file.set_path(store.path());
  file.set_bytes(store.file_bytes());
  file.set_fingerprint(store.fingerprint());
  return file;
}

}  // namespace

void AppendCut(const data::TokenStore& store, int64_t id, std::span<const int64_t> documents,
               std::span<const int64_t> lengths, v1::Bins* out) {
  out->add_bin_ids(id);
  out->add_documents_per_bin(static_cast<int32_t>(documents.size()));
  for (size_t i = 0; i < documents.size(); ++i) {
    const int64_t length = lengths[i], whole = store.length(documents[i]);
    const std::span<const int32_t> tokens =
        store.tokens(documents[i]).subspan(0, static_cast<size_t>(length));
    const int64_t at = static_cast<int64_t>(out->token_ids().size() / sizeof(int32_t));
    out->add_document_lengths(static_cast<int32_t>(length));
    out->mutable_token_ids()->append(reinterpret_cast<const char*>(tokens.data()),
                                     tokens.size_bytes());
    // The token behind a cut is not there: its bit is the last, which stays 0.
    const int64_t bits = length < whole ? length - 1 : length;
    AppendBits(store.target_bits(documents[i]), bits, at, out->mutable_targets());
    out->mutable_targets()->resize(static_cast<size_t>((at + length + 7) / 8), '\0');
  }
}

void AppendBin(const data::TokenStore& store, int64_t id, std::span<const int64_t> documents,
               BinForm form, v1::Bins* out) {
  if (form == BinForm::kDocumentIds) {
    out->add_bin_ids(id);
    out->add_documents_per_bin(static_cast<int32_t>(documents.size()));
    out->mutable_document_ids()->Add(documents.begin(), documents.end());
    return;
  }
  std::vector<int64_t> lengths;
  for (const int64_t document : documents) lengths.push_back(store.length(document));
  AppendCut(store, id, documents, lengths, out);
}

RecipeCurriculum::RecipeCurriculum(model::ModelConfig model, data::PreparedData data,
                                   planner::Recipe recipe, Questions questions,
                                   plan::DocumentLoss loss,
                                   std::shared_ptr<const ReferenceSums> references)
    : model_(std::move(model)),
      data_(std::move(data)),
      recipe_(std::move(recipe)),
      questions_(std::move(questions)),
      loss_(std::move(loss)),
      references_(std::move(references)) {
  const auto sizes_of = [&](const data::Bins& bins, const data::TokenStore& store) {
    std::vector<BinSize> sizes;
    for (int64_t bin = 0; bin < bins.size(); ++bin) {
      sizes.push_back(SizeOf(bin, OfSide(bins.bin(bin), Side::kTrained), store, model_, loss_));
    }
    return sizes;
  };
  for (int64_t pass = 0; pass < recipe_.passes(); ++pass) {
    train_sizes_.push_back(sizes_of(recipe_.bins(pass), *data_.train));
  }
  if (data_.eval != nullptr) eval_sizes_ = sizes_of(recipe_.eval_bins(), *data_.eval);
  ChooseProof();
}

double RecipeCurriculum::passes_after(int64_t finished_steps) const {
  if (finished_steps <= 0) return 0;
  const int64_t last = finished_steps - 1;
  const int64_t pass = recipe_.pass_of_step(last);
  const int64_t batch = recipe_.global_batch_bins();
  const int64_t steps = (recipe_.bins_per_pass(pass) + batch - 1) / batch;
  return static_cast<double>(pass) +
         static_cast<double>(finished_steps - recipe_.first_step_of_pass(pass)) /
             static_cast<double>(steps);
}

std::vector<BinSize> RecipeCurriculum::step_bins(int64_t step) const {
  std::vector<BinSize> sizes;
  for (const planner::BinRef& bin : recipe_.step_bins(step)) {
    sizes.push_back(train_sizes_[static_cast<size_t>(bin.pass)][static_cast<size_t>(bin.index)]);
  }
  return sizes;
}

std::vector<BinSize> RecipeCurriculum::eval_bins() const { return eval_sizes_; }

// Where the data has two documents for each one whose loss is taken, the second is mismatched.
std::vector<int64_t> RecipeCurriculum::OfSide(std::span<const int64_t> documents, Side side) const {
  const bool twins = loss_.documents_per_unit() == 1 && data_.documents_per_unit == 2;
  if (!twins && side == Side::kMismatched) return {};
  if (!twins) return {documents.begin(), documents.end()};
  std::vector<int64_t> own;
  for (size_t i = side == Side::kTrained ? 0 : 1; i < documents.size(); i += 2) {
    own.push_back(documents[i]);
  }
  return own;
}

std::span<const int64_t> RecipeCurriculum::BinDocuments(int64_t step, int64_t id) const {
  return step < 0 ? recipe_.eval_bins().bin(id)
                  : recipe_.documents({recipe_.pass_of_step(step), id});
}

void RecipeCurriculum::Fill(int64_t step, std::span<const int64_t> ids, BinForm form, Side side,
                            v1::Bins* out) const {
  const data::TokenStore& store = step < 0 ? *data_.eval : *data_.train;
  for (const int64_t id : ids) {
    AppendBin(store, id, OfSide(BinDocuments(step, id), side), form, out);
  }
  if (side == Side::kMismatched || loss_.values_per_document() == 0) return;
  for (const int64_t document : Documents(step, ids, side)) {
    const std::span<const float> values = store.values(document);
    out->mutable_values()->Add(values.begin(), values.end());
  }
}

void RecipeCurriculum::FillTrain(int64_t step, std::span<const int64_t> ids, BinForm form,
                                 v1::Bins* out) const {
  Fill(step, ids, form, Side::kTrained, out);
}

void RecipeCurriculum::FillEval(std::span<const int64_t> ids, BinForm form, v1::Bins* out) const {
  Fill(-1, ids, form, Side::kTrained, out);
}

void RecipeCurriculum::FillMismatched(int64_t step, std::span<const int64_t> ids, BinForm form,
                                      v1::Bins* out) const {
  Fill(step, ids, form, Side::kMismatched, out);
}

std::vector<int64_t> RecipeCurriculum::Documents(int64_t step, std::span<const int64_t> ids,
                                                 Side side) const {
  std::vector<int64_t> documents;
  for (const int64_t id : ids) {
    const std::vector<int64_t> of_bin = OfSide(BinDocuments(step, id), side);
    documents.insert(documents.end(), of_bin.begin(), of_bin.end());
  }
  return documents;
}

absl::Status RecipeCurriculum::Intact() const {
  RETURN_IF_ERROR(data_.train->Intact());
  return data_.eval == nullptr ? absl::OkStatus() : data_.eval->Intact();
}

v1::TokenStores RecipeCurriculum::token_stores() const {
  v1::TokenStores stores;
  *stores.mutable_train() = FileOf(*data_.train);
  if (data_.eval != nullptr) *stores.mutable_eval() = FileOf(*data_.eval);
  return stores;
}

v1::DatasetSummary RecipeCurriculum::summary() const {
  v1::DatasetSummary out;
  const data::DatasetStats& train = data_.train_stats;
  out.set_records_read(train.records_read);
  out.set_documents(train.documents);
  out.set_dropped_too_long(train.dropped_too_long);
  out.set_truncated(train.truncated);
  out.set_split(train.split);
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
