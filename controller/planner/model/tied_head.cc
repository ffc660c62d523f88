// Source: transformers 5.24 modeling_utils.py, tie_weights.
#include "controller/planner/model/tied_head.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/files/weights/weight_files.h"
#include "common/model/family.h"
#include "common/status_macros.h"

namespace coxswain::planner {
namespace {

constexpr int64_t kElementsAtOnce = int64_t{1} << 20;

// Of dtypes that differ the values count.
absl::StatusOr<bool> SameValues(const TensorInfo& a, const TensorInfo& b) {
  std::vector<float> of_a(kElementsAtOnce), of_b(kElementsAtOnce);
  for (int64_t begin = 0; begin < a.elements(); begin += kElementsAtOnce) {
    const int64_t count = std::min(kElementsAtOnce, a.elements() - begin);
    RETURN_IF_ERROR(CopyRangeAsFloat(a, begin, count, of_a.data()));
    RETURN_IF_ERROR(CopyRangeAsFloat(b, begin, count, of_b.data()));
    if (!std::equal(of_a.begin(), of_a.begin() + count, of_b.begin())) return false;
  }
  return true;
}

absl::StatusOr<bool> Same(const TensorInfo& a, const TensorInfo& b) {
  if (a.shape != b.shape) return false;
  if (a.dtype != b.dtype) return SameValues(a, b);
  if (a.data == b.data && a.strides == b.strides) return true;  // they share their bytes
  const int64_t bytes = ElementBits(a.dtype) / 8;
  const auto piece = static_cast<size_t>(kElementsAtOnce * bytes);
  std::vector<uint8_t> of_a(piece), of_b(piece);
  for (int64_t begin = 0; begin < a.elements(); begin += kElementsAtOnce) {
    const int64_t count = std::min(kElementsAtOnce, a.elements() - begin);
    CopyRangeBytes(a, begin, count, of_a.data());
    CopyRangeBytes(b, begin, count, of_b.data());
    if (std::memcmp(of_a.data(), of_b.data(), static_cast<size_t>(count * bytes)) != 0) {
      return false;
    }
  }
  return true;
}

}  // namespace

absl::Status UntieDifferingHead(const config::JobSpec& job, model::ModelConfig* model,
                                std::vector<std::string>* warnings) {
  if (!model->tie_embeddings || job.init == BaseInit::kRandom) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::unique_ptr<WeightFiles> files,
                   WeightFiles::Open(job.model_path, model::TextPartOf(*model).spellings));
  const model::Outside outside = model::OutsideOf(*model);
  const TensorInfo* const head = files->Find(outside.head.name);
  const TensorInfo* const embedding = files->Find(outside.embedding.name);
  if (head == nullptr || embedding == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(const bool same, Same(*head, *embedding));
  for (const TensorInfo* tensor : {head, embedding}) ReleasePages(*tensor);
  RETURN_IF_ERROR(files->Intact());
  if (same) return absl::OkStatus();
  model->tie_embeddings = false;
  warnings->push_back(absl::StrCat(
      job.model_path, ": config.json says tie_word_embeddings: true, and the files hold ",
      outside.head.name, " beside ", outside.embedding.name, " with other values: the two are not ",
      "tied, and an exported model says tie_word_embeddings: false"));
  return absl::OkStatus();
}

}  // namespace coxswain::planner
