#include "worker/engine/memory/expert_adapters.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/model/files/stacked_files.h"
#include "common/status_macros.h"

namespace coxswain::engine {
namespace {

using Floats = std::vector<float>;

// The linears of single experts that make the stack which `adapter` adapts; none where files have
// the stack as a whole.
std::vector<model::StackedFile> LinearsOf(const plan::Plan& plan, const model::Parameter& adapter) {
  std::vector<model::StackedFile> files = model::FilesOfAdapted(plan.architecture, adapter);
  const bool one_each =
      std::all_of(files.begin(), files.end(), [](const auto& file) { return file.one_each(); });
  return one_each ? files : std::vector<model::StackedFile>();
}

absl::StatusOr<Floats> ReadTensor(const SafetensorsFile& file, const std::string& name,
                                  const std::vector<int64_t>& wanted,
                                  std::set<std::string>* known) {
  const TensorInfo* tensor = file.Find(name);
  if (tensor == nullptr || tensor->shape != wanted) {
    return absl::InvalidArgumentError(absl::StrCat(
        file.path(), ": tensor \"", name, "\" ",
        tensor == nullptr ? std::string("is missing")
                          : absl::StrCat("has shape [", absl::StrJoin(tensor->shape, ", "), "]"),
        "; wanted [", absl::StrJoin(wanted, ", "), "]"));
  }
  known->insert(name);
  Floats values(static_cast<size_t>(tensor->elements()));
  RETURN_IF_ERROR(CopyAsFloat(*tensor, values.data()));
  return values;
}

absl::Status TwoAs(const SafetensorsFile& file, const std::string& one, const std::string& other,
                   int64_t rank) {
  return absl::InvalidArgumentError(absl::StrCat(
      file.path(), ": \"", one, "\" and \"", other,
      "\" differ, and gate and up of a stack of experts share A; merge the adapter into its base "
      "first, or have PEFT fuse the two, which gives rank ",
      2 * rank, " in place of ", rank));
}

}  // namespace

bool LiesByExpert(const plan::Plan& plan, const model::Parameter& adapter,
                  const SafetensorsFile& file) {
  if (adapter.kind != model::Kind::kExperts || file.Find(adapter.name) != nullptr) return false;
  for (const model::StackedFile& linear : LinearsOf(plan, adapter)) {
    if (file.Find(model::SingleExpertKey(linear, 0, adapter.part)) != nullptr) return true;
  }
  return false;
}

absl::StatusOr<Floats> ReadByExpert(const plan::Plan& plan, const model::Parameter& adapter,
                                    const SafetensorsFile& file, std::set<std::string>* known) {
  const bool a = model::IsLoraA(adapter);
  const int64_t rows = adapter.rows / adapter.batch;
  const std::vector<model::StackedFile> linears = LinearsOf(plan, adapter);
  Floats values(static_cast<size_t>(adapter.elements()));
  for (int64_t expert = 0; expert < adapter.batch; ++expert) {
    float* matrix = values.data() + expert * rows * adapter.cols;
    for (const model::StackedFile& linear : linears) {
      const std::string name = model::SingleExpertKey(linear, expert, adapter.part);
      ASSIGN_OR_RETURN(const Floats read,
                       ReadTensor(file, name, {a ? rows : linear.rows, adapter.cols}, known));
      if (!a) {
        model::StackedFile b = linear;
        b.cols = adapter.cols;
        model::ToMemoryMatrix(b, read.data(), matrix);
      } else if (&linear == &linears.front()) {
        std::copy(read.begin(), read.end(), matrix);
      } else if (!std::equal(read.begin(), read.end(), matrix)) {
        return TwoAs(file, model::SingleExpertKey(linears.front(), expert, adapter.part), name,
                     rows);
      }
    }
  }
  return values;
}

}  // namespace coxswain::engine
