// Writes a LoRA adapter in the format of the PEFT library.
#ifndef COXSWAIN_CONTROLLER_EXPORT_EXPORT_ADAPTER_H_
#define COXSWAIN_CONTROLLER_EXPORT_EXPORT_ADAPTER_H_

#include <string>

#include "absl/status/status.h"
#include "common/checkpoint/checkpoint_tensors.h"
#include "common/config/job_spec.h"
#include "common/plan/plan.h"

namespace coxswain::exports {

// adapter_config.json as PEFT writes it: indent 2, sorted keys, no trailing line feed; only keys
// that every PEFT since 0.5 reads. Source: peft LoraConfig and save_pretrained.
std::string AdapterConfigJson(const config::JobSpec& job, const plan::Plan& plan);

// adapter_model.safetensors (float32) and adapter_config.json into the existing `directory`.
absl::Status WriteAdapter(const config::JobSpec& job, const plan::Plan& plan,
                          const CheckpointTensors& checkpoint, const std::string& directory);

}  // namespace coxswain::exports

#endif  // COXSWAIN_CONTROLLER_EXPORT_EXPORT_ADAPTER_H_
