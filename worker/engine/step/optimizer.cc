#include "worker/engine/step/optimizer.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "common/philox.h"
#include "common/plan/optimizer_states.h"
#include "kernels/optimizer/adamw.h"
#include "kernels/optimizer/adamw_8bit.h"
#include "kernels/optimizer/global_norm.h"

namespace coxswain::engine {
namespace {

// Of piece i, but for its states and its place in the list.
kernels::AdamWTensor Piece(const plan::Plan& plan, const ParameterStore& store, size_t i) {
  const plan::ParameterGroup& group = plan.groups[static_cast<size_t>(plan.parameters[i].group)];
  const Values weights = store.Weights(i), trained = store.Trained(i);
  const Values gradient = store.ReducedGradient(i);
  kernels::AdamWTensor tensor;
  tensor.p = weights.data;
  if (trained.data != weights.data) tensor.master = static_cast<float*>(trained.data);
  tensor.g = gradient.data;
  tensor.n = weights.elements;
  tensor.begin = weights.first;
  tensor.lr_scale = group.lr_scale;
  tensor.weight_decay = group.weight_decay;
  tensor.p_dtype = weights.dtype;
  tensor.g_dtype = gradient.dtype;
  tensor.index = static_cast<uint32_t>(i);
  return tensor;
}

// In the order of the optimizer's row in common/plan/optimizer_states.cc.
void BindStates(const std::vector<StateValues>& states, kernels::AdamWTensor* tensor) {
  tensor->m = states[0].data;
  tensor->v = states[1].data;
}

void BindStates(const std::vector<StateValues>& states, kernels::AdamW8bitTensor* tensor) {
  tensor->m_codes = static_cast<uint8_t*>(states[0].data);
  tensor->m_absmax = static_cast<float*>(states[1].data);
  tensor->v_codes = static_cast<uint8_t*>(states[2].data);
  tensor->v_absmax = static_cast<float*>(states[3].data);
  tensor->tensor.m = states[4].data;
  tensor->tensor.v = states[5].data;
}

kernels::AdamWTensor& Part(kernels::AdamWTensor& record) { return record; }
kernels::AdamWTensor& Part(kernels::AdamW8bitTensor& record) { return record.tensor; }

// The pieces of the embedding's unit first.
template <typename Record>
void WriteRecords(const plan::Plan& plan, const ParameterLayout& layout,
                  const ParameterStore& store, Record* out) {
  std::vector<Record> records;
  int64_t chunks = 0;
  std::vector<size_t> order(plan.parameters.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_partition(order.begin(), order.end(), [&plan](size_t i) {
    return plan.parameters[i].unit == plan::kEmbeddingUnit;
  });
  for (const size_t i : order) {
    if (!layout.HasPiece(plan, i)) continue;
    Record record;
    Part(record) = Piece(plan, store, i);
    Part(record).first_chunk = chunks;
    BindStates(store.States(i), &record);
    chunks += kernels::TensorChunks(Part(record).n);
    records.push_back(record);
  }
  kernels::CopyMemory(out, records.data(), static_cast<int64_t>(records.size() * sizeof(Record)),
                      nullptr);
}

// What both launches take.
template <typename Args, typename Record>
Args ArgsOf(const Record* records, const UpdateArgs& update, const kernels::UpdateDraws& draws,
            Scalars* scalars) {
  Args args;
  args.tensors = records + update.range.first;
  args.count = update.range.count;
  args.chunks = update.range.chunks;
  args.scalars = &scalars->optimizer;
  args.draws = draws;
  args.last = update.last;
  return args;
}

}  // namespace

void FillRecords(const plan::Plan& plan, const ParameterLayout& layout, const Buffers& buffers) {
  const ParameterStore store(plan, layout, buffers);
  switch (plan::OptimizerOf(plan).launch) {
    case plan::UpdateLaunch::kAdamW:
      return WriteRecords(plan, layout, store, buffers.adamw_tensors);
    case plan::UpdateLaunch::kAdamW8bit:
      return WriteRecords(plan, layout, store, buffers.adamw_8bit_tensors);
  }
}

void DecideUpdate(const Buffers& buffers, double max_grad_norm, kernels::Stream* stream) {
  Scalars* scalars = buffers.scalars;
  kernels::DecideUpdateArgs decide;
  decide.sums = &scalars->norm_sums;
  decide.max_norm = max_grad_norm;
  decide.scalars = &scalars->optimizer;
  decide.norm = &scalars->norm;
  kernels::DecideUpdate(decide, stream);
}

void UpdateParameters(const plan::Plan& plan, const Buffers& buffers, const UpdateArgs& args,
                      kernels::Stream* stream) {
  Scalars* scalars = buffers.scalars;
  const std::array<uint32_t, 2> key = PhiloxKey(plan.seed, RandomPurpose::kStochasticRounding);
  const std::array<uint32_t, 2> state_key = PhiloxKey(plan.seed, RandomPurpose::kStateRounding);
  const kernels::UpdateDraws draws{
      .key = {key[0], key[1]}, .state_key = {state_key[0], state_key[1]}, .step = &scalars->step};
  const plan::Optimizer& optimizer = plan::OptimizerOf(plan);
  switch (optimizer.launch) {
    case plan::UpdateLaunch::kAdamW: {
      auto adamw = ArgsOf<kernels::AdamWArgs>(buffers.adamw_tensors, args, draws, scalars);
      adamw.state_dtype = DTypeOf(optimizer.states.front().storage);
      return kernels::AdamW(adamw, stream);
    }
    case plan::UpdateLaunch::kAdamW8bit:
      return kernels::AdamW8bit(
          ArgsOf<kernels::AdamW8bitArgs>(buffers.adamw_8bit_tensors, args, draws, scalars), stream);
  }
}

}  // namespace coxswain::engine
