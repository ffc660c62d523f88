#include "worker/engine/step/verified_step.h"

#include <algorithm>

#include "common/status_macros.h"
#include "kernels/optimizer/global_norm.h"
#include "kernels/tensors/whole_tensors.h"
#include "worker/engine/memory/parameter_store.h"

namespace coxswain::engine {
namespace {

static_assert(sizeof(TensorSums) == plan::kSumsOfTensor * sizeof(double));

TensorList ListValues(const State& state, const ListedElements& listed) {
  const ParameterStore store(state.plan, state.layout, state.buffers);
  return WriteTensorList(state.verified_tensors, store, listed, state.buffers.verified.values);
}

TensorList ListSample(const State& state) {
  const auto first = [](size_t, int64_t elements) {
    return std::min(elements, kernels::kTensorChunk);
  };
  return ListValues(state, {&ParameterStore::Trained, first});
}

void LaunchNorms(const TensorList& list, const State& state) {
  kernels::TensorNorms({.tensors = list.tensors,
                        .count = list.count,
                        .chunk_sums = state.buffers.norm_chunks,
                        .sums = state.buffers.verified.norms},
                       state.stream);
  kernels::CopyMemory(state.received_norms.data(), state.buffers.verified.norms,
                      list.count * static_cast<int64_t>(sizeof(kernels::NormSums)), state.stream);
}

void LaunchBits(const TensorList& list, const State& state) {
  kernels::ChecksumTensors({.tensors = list.tensors,
                            .count = list.count,
                            .chunks = list.chunks,
                            .bits = state.buffers.verified.bits},
                           state.stream);
  kernels::CopyMemory(state.received_bits.data(), state.buffers.verified.bits,
                      list.count * static_cast<int64_t>(sizeof(kernels::TensorBits)), state.stream);
}

StepSums SumsOfRank(const State& state, double attending_targets) {
  StepSums sums;
  for (size_t t = 0; t < state.verified_tensors.size(); ++t) {
    const LoadedTensor& loaded = state.loaded[t];
    const auto at = static_cast<int64_t>(t);
    const bool moved = state.received_bits[at].checksum != loaded.sample;
    sums.tensors.push_back({.gradient_squares = state.received_norms[at].sum_squares,
                            .value_squares = loaded.squares,
                            .moved = moved ? 1.0 : 0.0,
                            .loaded_nonzero = loaded.nonzero ? 1.0 : 0.0});
  }
  sums.attending_targets = attending_targets;
  return sums;
}

absl::StatusOr<StepSums> SumOverRanks(State& state, StepSums sums) {
  if (state.plan.world_size() == 1) return sums;
  const auto count = static_cast<int64_t>(sums.tensors.size());
  const int64_t bytes = count * static_cast<int64_t>(sizeof(TensorSums));
  double* const device = state.buffers.verified.sums;
  double* const of_batch = device + count * plan::kSumsOfTensor;
  kernels::CopyMemory(device, sums.tensors.data(), bytes, state.stream);
  kernels::CopyMemory(of_batch, &sums.attending_targets, sizeof(double), state.stream);
  state.exchange.SumDoubles(device, count * plan::kSumsOfTensor + plan::kSumsOfBatch);
  kernels::CopyMemory(sums.tensors.data(), device, bytes, state.stream);
  kernels::CopyMemory(&sums.attending_targets, of_batch, sizeof(double), state.stream);
  kernels::Synchronize(state.stream);
  RETURN_IF_ERROR(state.exchange.status());
  return sums;
}

// Compares all owned elements of these tensors with what was loaded.
void LookAtWhole(State& state, const std::vector<size_t>& tensors, StepSums* sums) {
  std::vector<bool> wanted(state.verified_tensors.size(), false);
  for (const size_t t : tensors) wanted[t] = true;
  const auto all = [&](size_t t, int64_t elements) { return wanted[t] ? elements : 0; };
  LaunchBits(ListValues(state, {&ParameterStore::Trained, all}), state);
  kernels::Synchronize(state.stream);
  for (const size_t t : tensors) {
    const bool moved =
        state.received_bits[static_cast<int64_t>(t)].checksum != state.loaded[t].whole;
    sums->tensors[t].moved = moved ? 1.0 : 0.0;
  }
  state.sample_list = ListSample(state);
}

}  // namespace

void BeginVerification(State& state) {
  if (!state.plan.trains()) return;
  const ParameterStore store(state.plan, state.layout, state.buffers);
  state.gradient_list = ListGradients(state.verified_tensors, store, state.buffers);
  const auto all = [](size_t, int64_t elements) { return elements; };
  const TensorList whole = ListValues(state, {&ParameterStore::Trained, all});
  NormOf(whole, state.buffers, &state.buffers.scalars->norm_sums, state.stream);
  LaunchNorms(whole, state);
  LaunchBits(whole, state);
  kernels::Synchronize(state.stream);
  state.loaded.resize(state.verified_tensors.size());
  for (size_t t = 0; t < state.loaded.size(); ++t) {
    const kernels::TensorBits& bits = state.received_bits[static_cast<int64_t>(t)];
    state.loaded[t] = {.squares = state.received_norms[static_cast<int64_t>(t)].sum_squares,
                       .nonzero = bits.nonzero != 0,
                       .whole = bits.checksum};
  }
  state.sample_list = ListSample(state);
  LaunchBits(state.sample_list, state);
  kernels::Synchronize(state.stream);
  for (size_t t = 0; t < state.loaded.size(); ++t) {
    state.loaded[t].sample = state.received_bits[static_cast<int64_t>(t)].checksum;
  }
  state.verification = std::make_unique<SelfVerification>(state.plan, state.verified_tensors);
}

void LaunchLook(State& state) {
  LaunchNorms(state.gradient_list, state);
  LaunchBits(state.sample_list, state);
}

absl::Status JudgeLook(State& state, const UpdateStep& step, double attending_targets) {
  const AppliedUpdate update{step.learning_rate, state.received[0].optimizer.clip_factor};
  StepSums own = SumsOfRank(state, attending_targets);
  ASSIGN_OR_RETURN(StepSums sums, SumOverRanks(state, own));
  RETURN_IF_ERROR(state.verification->CheckGradients(sums));
  const std::vector<size_t> unmoved = state.verification->Unmoved(sums, update);
  if (!unmoved.empty()) {
    LookAtWhole(state, unmoved, &own);
    ASSIGN_OR_RETURN(sums, SumOverRanks(state, own));
  }
  return state.verification->CheckUpdate(sums, update);
}

int64_t AttendingTargets(const BinBatch& bins) {
  int64_t attending = 0;
  size_t token = 0;
  for (const int32_t length : bins.document_lengths) {
    const int32_t first = bins.token_ids[token];
    bool differs = false;
    for (int32_t i = 0; i < length; ++i, ++token) {
      differs = differs || bins.token_ids[token] != first;
      attending += differs && bins.targets[token] != 0;
    }
  }
  return attending;
}

}  // namespace coxswain::engine
