#include "bench/controller/dispatch/curriculum.h"

#include <cstdio>
#include <cstdlib>

#include "common/data/token_store_writer.h"
#include "common/files/hash.h"
#include "controller/driver/training/recipe_curriculum.h"

namespace coxswain::bench {
namespace {

constexpr int64_t kDocuments = 50000;  // as an instruction set: ids of three bytes

std::unique_ptr<data::TokenStore> MakeStore(const std::string& path, int64_t tokens) {
  const std::vector<int32_t> ids(static_cast<size_t>(tokens), 1);
  std::vector<uint8_t> bits(static_cast<size_t>((tokens + 7) / 8), 0);
  for (int64_t t = 0; t + 1 < tokens; ++t) {
    bits[static_cast<size_t>(t / 8)] |= static_cast<uint8_t>(1 << (t % 8));
  }
  auto writer = data::TokenStoreWriter::Create(path);
  absl::Status status = writer.status();
  for (int64_t i = 0; i < kDocuments && status.ok(); ++i) status = (*writer)->Add(ids, bits, 1);
  if (status.ok()) status = (*writer)->Finish();
  auto store = status.ok() ? data::TokenStore::Open(path) : status;
  if (!store.ok()) {
    std::fprintf(stderr, "dispatch_bench: %s\n", store.status().ToString().c_str());
    std::exit(1);
  }
  return std::move(*store);
}

}  // namespace

DispatchCurriculum::DispatchCurriculum(const Shape& shape, const std::string& directory)
    : shape_(shape),
      recipe_hash_(Sha256("bench")),
      store_(MakeStore(directory + "/train.tokens", shape.document_tokens)) {}

std::vector<driver::BinSize> DispatchCurriculum::step_bins(int64_t step) const {
  const int64_t tokens = shape_.documents_per_bin * shape_.document_tokens;
  std::vector<driver::BinSize> bins(static_cast<size_t>(shape_.ranks * shape_.bins_per_rank));
  for (size_t i = 0; i < bins.size(); ++i) {
    bins[i] = {.id = step * static_cast<int64_t>(bins.size()) + static_cast<int64_t>(i),
               .tokens = tokens,
               .targets = tokens - shape_.documents_per_bin};
  }
  return bins;
}

void DispatchCurriculum::FillTrain(int64_t, std::span<const int64_t> ids, driver::BinForm form,
                                   v1::Bins* out) const {
  std::vector<int64_t> documents(static_cast<size_t>(shape_.documents_per_bin));
  for (const int64_t id : ids) {
    for (size_t i = 0; i < documents.size(); ++i) {
      documents[i] = (id * shape_.documents_per_bin + static_cast<int64_t>(i) * 7919) % kDocuments;
    }
    driver::AppendBin(*store_, id, documents, form, out);
  }
}

v1::TokenStores DispatchCurriculum::token_stores() const {
  v1::TokenStores stores;
  stores.mutable_train()->set_path(store_->path());
  stores.mutable_train()->set_bytes(store_->file_bytes());
  stores.mutable_train()->set_fingerprint(store_->fingerprint());
  return stores;
}

}  // namespace coxswain::bench
