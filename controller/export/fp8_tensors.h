// An exported model in FP8: codes and scales of its tensors, and what config.json says of them.
#ifndef COXSWAIN_CONTROLLER_EXPORT_FP8_TENSORS_H_
#define COXSWAIN_CONTROLLER_EXPORT_FP8_TENSORS_H_

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "common/files/safetensors/safetensors_writer.h"
#include "controller/export/model_tensor.h"

namespace coxswain::exports {

bool IsInFp8(const ModelTensor& tensor);

// What files hold of the tensor: it alone, or NAME F8_E4M3 [rows, cols] and NAME_scale_inv F32
// [rows / 128, cols / 128] of fp8_blocks.h. They point to it.
std::vector<TensorSource> SourcesOf(const ModelTensor& tensor, double lora_scale);

// quantization_config of a model with these tensors. It names every other module with a matrix, and
// the head also where it is the embedding. Source: transformers 5.24, FineGrainedFP8Config and
// should_convert_module; DeepSeek-V3, config.json (fmt).
nlohmann::ordered_json Fp8Config(const std::vector<ModelTensor>& tensors);

}  // namespace coxswain::exports

#endif  // COXSWAIN_CONTROLLER_EXPORT_FP8_TENSORS_H_
