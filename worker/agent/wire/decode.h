// Commands of the wire -> plain structs of the engine, checked once, here.
#ifndef COXSWAIN_WORKER_AGENT_WIRE_DECODE_H_
#define COXSWAIN_WORKER_AGENT_WIRE_DECODE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "common/data/token_store.h"
#include "coxswain/v1/worker_service.pb.h"
#include "worker/engine/engine.h"

namespace coxswain::agent {

// The most that the plan allows in one command.
struct BinLimits {
  int64_t vocab_size = 0;
  int64_t sequence_len = 0;  // tokens per bin
  int64_t max_documents_per_bin = 0;
  // Of a step's denominator: 2, it counts pairs; 1, records, or documents of a policy loss, or
  // more; 0, targets.
  int64_t documents_per_unit = 0;
};

// InvalidArgument names the field, the index and both values. OutOfRange is a token beyond the
// vocabulary: an error of the data, not of the message. Empty bins are allowed, because a rank may
// have no part in a small last batch. document_ids refer to `store`; null: this worker maps none.
// The result does not depend on how the documents came.
absl::StatusOr<engine::BinBatch> DecodeBins(const v1::Bins& bins, const BinLimits& limits,
                                            const data::TokenStore* store = nullptr);
// InvalidArgument where a number is not finite, or below 0.
absl::StatusOr<kernels::DocumentScalars> DecodeScalars(const v1::DocumentScalars& scalars);
absl::StatusOr<engine::GradientBatch> DecodeBatch(const v1::ForwardBackward& batch,
                                                  const BinLimits& limits,
                                                  const data::TokenStore* store = nullptr);
absl::StatusOr<engine::UpdateStep> DecodeUpdate(const v1::Update& update);
absl::StatusOr<engine::TrainStep> DecodeTrain(const v1::Train& train, const BinLimits& limits,
                                              const data::TokenStore* store = nullptr);

}  // namespace coxswain::agent

#endif  // COXSWAIN_WORKER_AGENT_WIRE_DECODE_H_
