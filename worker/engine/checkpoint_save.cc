#include <cstdint>
#include <cstring>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/hash.h"
#include "common/safetensors.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"
#include "worker/engine/parameter_store.h"
#include "worker/engine/snapshot.h"
#include "worker/engine/weights.h"

namespace coxswain::engine {
namespace {

TensorSource Source(std::string name, const plan::Parameter& parameter, DType dtype,
                    const char* values) {
  const int64_t bytes = parameter.elements() * (dtype == DType::kF32 ? 4 : 2);
  const auto fill = [values, bytes](uint8_t* out) {
    std::memcpy(out, values, static_cast<size_t>(bytes));
    return absl::OkStatus();
  };
  return TensorSource{std::move(name), dtype, FileShape(parameter), fill};
}

std::string Metadata(const plan::Plan& plan, const SnapshotCounters& counters, int rank) {
  return nlohmann::json{{"recipe_hash", ToHex(plan.recipe_hash)},
                        {"finished_steps", counters.finished_steps},
                        {"applied_updates", counters.applied_updates},
                        {"rank", rank},
                        {"world_size", plan.world_size()}}
      .dump();
}

}  // namespace

absl::StatusOr<ShardFile> WriteShard(const plan::Plan& plan, const ParameterLayout& layout,
                                     const SnapshotCounters& counters, const Buffers& buffers,
                                     const ShardPlace& place) {
  const ParameterStore store(plan, layout, buffers);
  std::vector<TensorSource> tensors;
  const char* trained = buffers.snapshot + 8 * layout.trainable;
  for (size_t i = 0; i < plan.parameters.size(); ++i) {
    const plan::Parameter& parameter = plan.parameters[i];
    if (!parameter.trainable()) continue;
    const kernels::DType dtype = store.Trained(i).dtype;
    const char* values = trained;
    trained += parameter.elements() * kernels::DTypeBytes(dtype);
    if (parameter.save_rank != place.rank) continue;
    const char* m = buffers.snapshot + 4 * layout.state_offset[i];
    const char* v = m + 4 * layout.trainable;
    tensors.push_back(Source(parameter.name, parameter,
                             dtype == kernels::DType::kFloat32 ? DType::kF32 : DType::kBF16,
                             values));
    tensors.push_back(Source(absl::StrCat(parameter.name, ".m"), parameter, DType::kF32, m));
    tensors.push_back(Source(absl::StrCat(parameter.name, ".v"), parameter, DType::kF32, v));
  }
  const std::string name = absl::StrCat("rank-", place.rank, ".safetensors");
  const std::map<std::string, std::string> metadata = {
      {"format", "pt"}, {"coxswain", Metadata(plan, counters, place.rank)}};
  ASSIGN_OR_RETURN(const WrittenFile written,
                   WriteSafetensors(absl::StrCat(place.directory, "/", name), tensors, metadata));
  return ShardFile{name, written.bytes, written.sha256};
}

}  // namespace coxswain::engine
