// What a generate command leaves for the next: the texts being written, and where their next rows
// are staged.
#ifndef COXSWAIN_WORKER_ENGINE_GENERATION_STATE_H_
#define COXSWAIN_WORKER_ENGINE_GENERATION_STATE_H_

#include <cstdint>
#include <vector>

#include "common/plan/plan.h"
#include "kernels/device.h"
#include "worker/engine/batch.h"
#include "worker/engine/buffers.h"
#include "worker/engine/commands.h"
#include "worker/engine/device_handles.h"

namespace coxswain::engine {

struct OpenText {
  int64_t length = 0;  // tokens; the last is not in the cache yet
  int32_t last = 0;    // token
  bool ended = false;
  bool cut = false;  // it ended at the plan's length
};

struct GenerationState {
  explicit GenerationState(const plan::Plan& plan);

  // Stages the prompts [first, first + count) whose tokens lie in `batch`, `stride` rows apart or,
  // 0, one behind the other: which rows are of which text, and which are the last of theirs.
  void StagePrompts(const GenerateChunk& chunk, size_t first, size_t count, int64_t stride,
                    const MicroBatch& batch, const Buffers& buffers, kernels::Stream* stream);
  // Stages the last token of every text as a row; those of ended ones are padding.
  MicroBatch StageNext(const Buffers& buffers, kernels::Stream* stream);

  Sampling sampling;
  std::vector<int32_t> ends;
  std::vector<OpenText> texts;

  // Staged, and chosen tokens on their way back. One sweep is in flight at a time.
  PinnedArray<int32_t> tokens, positions, sequences, rows, ids;
  std::vector<char> logits;  // of drawn tokens
};

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_GENERATION_STATE_H_
