#include "controller/export/expert_linears.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/model/files/stacked_files.h"
#include "common/status_macros.h"

namespace coxswain::exports {
namespace {

// B of one linear: the rows of the expert's B that the linear has.
absl::Status CopyB(const model::StackedFile& linear, const model::Parameter& b,
                   const PiecedTensor& master, int64_t expert, uint8_t* out) {
  const int64_t elements = b.elements() / b.batch;
  std::vector<float> whole(static_cast<size_t>(elements));
  RETURN_IF_ERROR(CopyRangeAsFloat(master, expert * elements, elements, whole.data()));
  model::StackedFile of_rank = linear;
  of_rank.cols = b.cols;
  std::vector<float> rows(static_cast<size_t>(linear.rows * b.cols));
  model::ToFileMatrix(of_rank, whole.data(), rows.data());
  std::memcpy(out, rows.data(), rows.size() * sizeof(float));
  return absl::OkStatus();
}

absl::Status CopyA(const model::Parameter& a, const PiecedTensor& master, int64_t expert,
                   uint8_t* out) {
  const int64_t elements = a.elements() / a.batch;
  std::vector<float> rows(static_cast<size_t>(elements));
  RETURN_IF_ERROR(CopyRangeAsFloat(master, expert * elements, elements, rows.data()));
  std::memcpy(out, rows.data(), rows.size() * sizeof(float));
  return absl::OkStatus();
}

}  // namespace

void AppendByExpert(const plan::Plan& plan, const model::Parameter& adapter,
                    const PiecedTensor& master, std::vector<TensorSource>* sources) {
  const bool a = model::IsLoraA(adapter);
  for (const model::StackedFile& linear : model::FilesOfAdapted(plan.architecture, adapter)) {
    const int64_t rows = a ? adapter.rows / adapter.batch : linear.rows;
    for (int64_t expert = 0; expert < adapter.batch; ++expert) {
      sources->push_back({model::SingleExpertKey(linear, expert, adapter.part),
                          ElementType::kF32,
                          {rows, adapter.cols},
                          [a, linear, expert, &adapter, &master](uint8_t* out) {
                            return a ? CopyA(adapter, master, expert, out)
                                     : CopyB(linear, adapter, master, expert, out);
                          }});
    }
  }
}

std::set<std::string> LinearsByExpert(const plan::Plan& plan) {
  std::set<std::string> names;
  for (const model::Parameter& parameter : plan.parameters) {
    if (parameter.kind != model::Kind::kExperts || !model::IsLoraA(parameter)) continue;
    const std::string block = absl::StrCat(plan.architecture.outside.layers, parameter.layer, ".");
    for (const model::StackedFile& linear : model::FilesOfAdapted(plan.architecture, parameter)) {
      const std::string module = linear.name.substr(0, linear.name.rfind('.'));
      names.insert(
          absl::StrCat(plan.architecture.outside.layers, "*.", module.substr(block.size())));
    }
  }
  return names;
}

}  // namespace coxswain::exports
