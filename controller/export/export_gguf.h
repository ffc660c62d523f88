// Writes a model or an adapter as one GGUF file, which llama.cpp and what is built on it load.
#ifndef COXSWAIN_CONTROLLER_EXPORT_EXPORT_GGUF_H_
#define COXSWAIN_CONTROLLER_EXPORT_EXPORT_GGUF_H_

#include <string>

#include "absl/status/status.h"
#include "common/checkpoint/checkpoint_tensors.h"
#include "common/config/job_spec.h"
#include "common/plan/plan.h"
#include "controller/export/export_tokenizer.h"

namespace coxswain::exports {

// model-TYPE.gguf into the existing `directory`, whose tokenizer (WriteTokenizer) and template go
// into it. The type is job.export_gguf.model. Values are those of WriteModel in float32, rounded
// once to the type that gguf_types.h gives the matrix; vectors and routers stay float32, as
// llama.cpp's converter has it. One tensor, or one
// expert's matrix, is in memory at a time. Errors as WriteModel and ReadGgufVocabulary.
// Unimplemented: CheckGgufForm.
absl::Status WriteGgufModel(const config::JobSpec& job, const plan::Plan& plan,
                            const CheckpointTensors& checkpoint, const TrainedFormat& format,
                            const std::string& directory);

// adapter-TYPE.gguf into the existing `directory`; the type is job.export_gguf.adapter. Errors as
// WriteAdapter. Unimplemented: CheckGgufAdapter.
absl::Status WriteGgufAdapter(const config::JobSpec& job, const plan::Plan& plan,
                              const CheckpointTensors& checkpoint, const std::string& directory);

}  // namespace coxswain::exports

#endif  // COXSWAIN_CONTROLLER_EXPORT_EXPORT_GGUF_H_
