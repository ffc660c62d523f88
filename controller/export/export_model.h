// Writes a model directory in the Hugging Face format.
#ifndef COXSWAIN_CONTROLLER_EXPORT_EXPORT_MODEL_H_
#define COXSWAIN_CONTROLLER_EXPORT_EXPORT_MODEL_H_

#include <string>

#include "absl/status/status.h"
#include "common/checkpoint/checkpoint_tensors.h"
#include "common/config/job_spec.h"
#include "common/plan/plan.h"

namespace coxswain::exports {

// config.json (the source's bytes, or with the new dtype in the source's dialect, the vocabulary as
// tokens have grown it and, in place of a path in _name_or_path, BaseModelName) and
// model.safetensors, or shards of at most job.export_max_shard_bytes with their index, into the
// existing `directory`. A trained tensor comes from the checkpoint (float32 or bfloat16), a frozen
// one from the base;
// with an adapter each adapted weight becomes W + scale * B A, computed in float32 and cast once.
// W is the base's own, also under adapter: qlora, which trained beside a quantised copy of it;
// where the files themselves are quantised it is what they stand for. In FP8 weights of linears are
// codes and scales (fp8_tensors.h), which are rounded once from float32.
absl::Status WriteModel(const config::JobSpec& job, const plan::Plan& plan,
                        const CheckpointTensors& checkpoint, const std::string& directory);

}  // namespace coxswain::exports

#endif  // COXSWAIN_CONTROLLER_EXPORT_EXPORT_MODEL_H_
