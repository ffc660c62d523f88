#include "worker/engine/load_written.h"

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files/hash.h"
#include "common/files/weights/weight_files.h"
#include "common/model/family.h"
#include "common/model/files/stacked_files.h"
#include "common/status_macros.h"
#include "worker/engine/make_state.h"
#include "worker/engine/memory/parameter_store.h"
#include "worker/engine/memory/weights.h"
#include "worker/engine/snapshot/load_shards.h"
#include "worker/engine/step/run_sweep.h"

namespace coxswain::engine {
namespace {

// A checkpoint takes a model beside it, for its types.
absl::Status Check(const State& state, const WrittenWeights& written) {
  RETURN_IF_ERROR(CheckTrains(state, "load"));
  const bool model = !written.model_dir.empty();
  const bool adapter = !written.adapter_dir.empty();
  const bool checkpoint = !written.checkpoint_dir.empty();
  if (adapter ? model || checkpoint : !model && !checkpoint) {
    return absl::InvalidArgumentError(absl::StrCat(
        "load: wanted a model, an adapter or a checkpoint, or a checkpoint with a model; given: "
        "model \"",
        written.model_dir, "\", adapter \"", written.adapter_dir, "\", checkpoint \"",
        written.checkpoint_dir, "\""));
  }
  if (state.pending.batches > 0) {
    return absl::FailedPreconditionError(absl::StrCat("load: ", state.pending.batches,
                                                      " batches of step ", state.pending.step,
                                                      " wait for their update"));
  }
  if (model && state.plan.quantization != Quantization::kNone) {
    return absl::FailedPreconditionError(
        absl::StrCat("load: the plan keeps its base as ", ToString(state.plan.quantization), ", ",
                     written.model_dir, " is a model that is not to be quantised"));
  }
  return absl::OkStatus();
}

// How the plan reads a model that it wrote: with the rows of added tokens and the head in the
// files, and adapters that change nothing. Of its own base only the latter.
plan::Plan ReadingModel(const plan::Plan& plan, const std::string& directory) {
  plan::Plan reading = plan;
  reading.lora.init_from.clear();
  if (directory == plan.model_path) return reading;
  reading.model_path = directory;
  reading.init = BaseInit::kPretrained;
  reading.model.added_tokens = {};
  reading.model.new_head = false;
  return reading;
}

absl::Status LoadAdapterOnly(State& state, const WrittenWeights& written, std::string* doing) {
  plan::Plan reading = state.plan;
  reading.lora.init_from = written.adapter_dir;
  *doing = absl::StrCat("load adapter ", written.adapter_dir);
  return LoadAdapter(
      reading, ParameterStore(reading, state.layout, state.buffers, {.shake = written.shake}));
}

// The type of each parameter in the files of a model; float32, which rounds nothing, of one that is
// not there.
absl::StatusOr<std::vector<ElementType>> TypesIn(const plan::Plan& plan,
                                                 const std::string& directory) {
  ASSIGN_OR_RETURN(const std::unique_ptr<WeightFiles> files,
                   WeightFiles::Open(directory, model::TextPartOf(plan.model).spellings));
  std::vector<ElementType> types;
  for (const model::Parameter& parameter : plan.parameters) {
    const std::vector<model::StackedFile> stack =
        model::StackedFilesOf(plan.architecture, parameter);
    const TensorInfo* tensor =
        files->Find(stack.empty() ? parameter.name : stack.front().NameOf(0));
    types.push_back(tensor == nullptr ? ElementType::kF32 : tensor->dtype);
  }
  return types;
}

absl::Status LoadTrained(State& state, const WrittenWeights& written, std::string* doing) {
  Change change{.shake = written.shake};
  if (!written.model_dir.empty()) {
    *doing = absl::StrCat("read the types of ", written.model_dir);
    ASSIGN_OR_RETURN(change.types, TypesIn(state.plan, written.model_dir));
  }
  RETURN_IF_ERROR(LoadParameters(state, state.plan, change, doing));
  *doing = absl::StrCat("load checkpoint ", written.checkpoint_dir);
  return LoadShards(state.plan, state.layout, written.checkpoint_dir, ToHex(state.plan.recipe_hash),
                    state.buffers, change)
      .status();
}

}  // namespace

absl::Status LoadWritten(State& state, const WrittenWeights& written, std::string* doing) {
  RETURN_IF_ERROR(Check(state, written));
  state.holds_written = true;
  state.has_frozen_codes = false;
  kernels::Synchronize(state.stream);
  state.exchange.Forget();
  if (!written.adapter_dir.empty()) {
    RETURN_IF_ERROR(LoadAdapterOnly(state, written, doing));
  } else if (!written.checkpoint_dir.empty()) {
    RETURN_IF_ERROR(LoadTrained(state, written, doing));
  } else {
    const plan::Plan reading = ReadingModel(state.plan, written.model_dir);
    RETURN_IF_ERROR(LoadParameters(state, reading, {.shake = written.shake}, doing));
  }
  state.exchange.Forget();  // slots were used in between
  return absl::OkStatus();
}

}  // namespace coxswain::engine
