// Every buffer of a worker but "scratch", whose size the kernels know: one list from which the
// planner writes the table of a plan and the engine binds it. Legend: worker/engine/BUFFERS.md.
#ifndef COXSWAIN_COMMON_PLAN_BUFFERS_BUFFER_ROWS_H_
#define COXSWAIN_COMMON_PLAN_BUFFERS_BUFFER_ROWS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/plan/plan.h"
#include "common/plan/shard_map.h"

namespace coxswain::plan {

// What the scalars of worker/engine/memory/buffers.h may take.
inline constexpr int64_t kScalarsBytes = 512;

// What self-verification sums over the ranks: doubles of each trained tensor, and of the batch.
inline constexpr int64_t kSumsOfTensor = 4, kSumsOfBatch = 1;

// Of a micro-step; on cuda the padded tail of a bin is one more document.
int64_t MostDocuments(const Plan& plan);

// Rows of tokens and documents of one micro-step at most.
struct BatchExtents {
  explicit BatchExtents(const Plan& plan);

  int64_t tokens = 0;  // T
  // R: T rounded up to whole chunks of the head; the scored documents of a loss of scores
  int64_t target_rows = 0;
  int64_t documents = 0;         // D, MostDocuments
  int64_t scored_documents = 0;  // of a loss of documents or a policy, without such tails
  int64_t embedding_rows = 0;    // embedding_rows.h: of all ranks, or 0
};

// In the order of the table. A row that shares memory has bytes 0 and says whose.
std::vector<Buffer> BufferRows(const Plan& plan);

// "rope.cos", "rope.window.sin": a table of the rope-th of ModelConfig::ropes().
std::string RopeRow(int64_t rope, const char* name);

// Pools of rows of a micro-step over which the losses of routers are taken.
int64_t RouterPools(const Plan& plan);

// Of one layer in "cache.keys": [sequences, length, kv heads, head_dim], and in "cache.values",
// whose heads have value_dim.
int64_t CachedKeyBytes(const Plan& plan);
int64_t CachedValueBytes(const Plan& plan);

// Whether anything of this kind has an adapter.
bool HasAdapterOf(const Plan& plan, model::Kind kind);

}  // namespace coxswain::plan

#endif  // COXSWAIN_COMMON_PLAN_BUFFERS_BUFFER_ROWS_H_
