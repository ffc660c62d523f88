#include "worker/engine/batches/generation_state.h"

#include <algorithm>

#include "common/plan/buffers/buffer_rows.h"
#include "common/plan/extents.h"

namespace coxswain::engine {

GenerationState::GenerationState(const plan::Plan& plan)
    : tokens(plan.generation.sequences),
      positions(plan.generation.sequences),
      sequences(plan::BatchExtents(plan).tokens),
      rows(plan.generation.sequences),
      ids(plan.generation.sequences),
      rope_rows(plan::LongDocumentRow(plan) > 0
                    ? std::max(plan::BatchExtents(plan).tokens, plan.generation.sequences)
                    : 0),
      by_document(plan::LongDocumentRow(plan) > 0) {
  const int64_t long_row = plan::LongDocumentRow(plan);
  if (plan.generation.length > long_row) first_rope_row = static_cast<int32_t>(long_row);
}

void GenerationState::StagePrompts(const GenerateChunk& chunk, size_t first, size_t count,
                                   int64_t stride, const MicroBatch& batch, const Buffers& buffers,
                                   kernels::Stream* stream) {
  sequences.clear();
  rows.clear();
  rope_rows.clear();
  for (size_t i = first; i < first + count; ++i) {
    const auto length = static_cast<int64_t>(chunk.prompts[i].size());
    for (int64_t t = 0; t < std::max(length, stride); ++t) {
      sequences.push_back(t < length ? static_cast<int32_t>(i) : -1);
      if (t + 1 == length) rows.push_back(static_cast<int32_t>(sequences.size()) - 1);
      if (by_document) rope_rows.push_back(first_rope_row + static_cast<int32_t>(t));
    }
  }
  while (sequences.size() < batch.tokens) {
    sequences.push_back(-1);
    if (by_document) rope_rows.push_back(0);
  }
  rope_rows.CopyTo(buffers.rope_rows, stream);
  sequences.CopyTo(buffers.cached_sequences, stream);
  rows.CopyTo(buffers.rows, stream);
}

MicroBatch GenerationState::StageNext(const Buffers& buffers, kernels::Stream* stream) {
  for (PinnedArray<int32_t>* array : {&tokens, &positions, &sequences, &rows, &rope_rows}) {
    array->clear();
  }
  for (const OpenText& text : texts) {
    rows.push_back(static_cast<int32_t>(rows.size()));
    sequences.push_back(text.ended ? -1 : rows[rows.size() - 1]);
    tokens.push_back(text.last);
    positions.push_back(static_cast<int32_t>(text.length - 1));
    if (by_document) rope_rows.push_back(first_rope_row + positions[positions.size() - 1]);
  }
  tokens.CopyTo(buffers.tokens, stream);
  positions.CopyTo(buffers.positions, stream);
  rope_rows.CopyTo(buffers.rope_rows, stream);
  sequences.CopyTo(buffers.cached_sequences, stream);
  rows.CopyTo(buffers.rows, stream);
  MicroBatch batch;
  batch.tokens = batch.target_rows = rows.size();
  return batch;
}

}  // namespace coxswain::engine
