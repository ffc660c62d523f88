// State between generate commands: the unfinished texts, and the staging memory of their next rows.
#ifndef COXSWAIN_WORKER_ENGINE_BATCHES_GENERATION_STATE_H_
#define COXSWAIN_WORKER_ENGINE_BATCHES_GENERATION_STATE_H_

#include <cstdint>
#include <vector>

#include "common/plan/plan.h"
#include "kernels/device.h"
#include "worker/engine/batches/batch.h"
#include "worker/engine/commands/commands.h"
#include "worker/engine/device/device_handles.h"
#include "worker/engine/memory/buffers.h"

namespace coxswain::engine {

struct OpenText {
  int64_t length = 0;  // tokens, of which the last is not in the cache yet
  int32_t last = 0;    // token
  bool ended = false;
  bool cut = false;  // ended because the plan's length was reached
};

struct GenerationState {
  explicit GenerationState(const plan::Plan& plan);

  // Stages the prompts [first, first + count): the text of each row, and the last row of each text.
  // The tokens lie in `batch`, `stride` rows apart; 0: one prompt directly after the other.
  void StagePrompts(const GenerateChunk& chunk, size_t first, size_t count, int64_t stride,
                    const MicroBatch& batch, const Buffers& buffers, kernels::Stream* stream);
  // Stages the last token of every text as a row. Rows of ended texts are padding.
  MicroBatch StageNext(const Buffers& buffers, kernels::Stream* stream);

  Sampling sampling;
  std::vector<int32_t> ends;
  std::vector<OpenText> texts;

  // Staged rows, and in `ids` the chosen tokens on their way back. One sweep is in flight at a
  // time.
  PinnedArray<int32_t> tokens, positions, sequences, rows, ids;
  // common/plan/extents.h. Texts that may become long are rotated as long ones from the start, so
  // that what the cache holds of them stays as it is.
  PinnedArray<int32_t> rope_rows;
  int32_t first_rope_row = 0;  // of such texts
  bool by_document = false;    // the plan's tables have two parts
  std::vector<char> logits;    // logits from which tokens are drawn
};

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_BATCHES_GENERATION_STATE_H_
