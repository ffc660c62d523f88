#include "worker/engine/memory/router_corrections.h"

#include <memory>
#include <vector>

#include "common/files/safetensors/safetensors.h"
#include "common/files/weights/weight_files.h"
#include "common/model/family.h"
#include "common/plan/routers.h"
#include "common/status_macros.h"
#include "kernels/experts/expert_use.h"

namespace coxswain::engine {

absl::Status LoadCorrections(const plan::Plan& plan, const ParameterLayout& layout,
                             const Buffers& buffers) {
  if (buffers.router_corrections == nullptr || plan.init != BaseInit::kPretrained)
    return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::unique_ptr<WeightFiles> files,
                   WeightFiles::Open(plan.model_path, model::TextPartOf(plan.model).spellings));
  for (size_t i = 0; i < plan.parameters.size(); ++i) {
    const int64_t place = layout.map.places[i].correction;
    if (place < 0) continue;
    const int64_t elements = plan.parameters[i].elements();
    std::vector<float> values(static_cast<size_t>(elements));
    RETURN_IF_ERROR(
        CopyRangeAsFloat(*files->Find(plan.parameters[i].name), 0, elements, values.data()));
    kernels::CopyMemory(buffers.router_corrections + place, values.data(), 4 * elements, nullptr);
  }
  return files->Intact();
}

void MoveCorrections(const plan::Plan& plan, const Buffers& buffers, kernels::Stream* stream) {
  if (buffers.router_corrections == nullptr) return;
  const std::vector<plan::Router> routers = plan::RoutersOf(plan);
  const plan::Router& first = routers.front();
  kernels::BalanceBiasArgs args;
  args.routers = static_cast<int64_t>(routers.size());
  args.experts = first.experts;  // of every router: plan_check.cc
  args.stride = kernels::ExpertUseCount(first.experts);
  args.counts = buffers.router_use;
  args.rate = &buffers.scalars->router_bias_rate;
  args.skip = &buffers.scalars->optimizer.skip;
  args.bias = buffers.router_corrections;
  kernels::BalanceBias(args, stream);
}

}  // namespace coxswain::engine
