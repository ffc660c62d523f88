#include "controller/export/fp8_tensors.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/files/weights/blocks_and_scales.h"
#include "common/files/weights/fp8_blocks.h"
#include "common/status_macros.h"

namespace coxswain::exports {
namespace {

Fp8Matrix MatrixOf(const ModelTensor& tensor, const std::vector<float>& values) {
  return {.rows = tensor.shape[0], .cols = tensor.shape[1], .values = values.data()};
}

absl::Status FillCodes(const ModelTensor& tensor, double lora_scale, uint8_t* out) {
  ASSIGN_OR_RETURN(const std::vector<float> values, ValuesOf(tensor, lora_scale));
  const Fp8Matrix matrix = MatrixOf(tensor, values);
  WriteFp8Codes(matrix, Fp8ScalesOf(matrix), out);
  return absl::OkStatus();
}

absl::Status FillScales(const ModelTensor& tensor, double lora_scale, uint8_t* out) {
  ASSIGN_OR_RETURN(const std::vector<float> values, ValuesOf(tensor, lora_scale));
  const std::vector<float> scales = Fp8ScalesOf(MatrixOf(tensor, values));
  std::memcpy(out, scales.data(), scales.size() * sizeof(float));
  return absl::OkStatus();
}

}  // namespace

bool IsInFp8(const ModelTensor& tensor) { return tensor.dtype == ElementType::kF8E4M3; }

std::vector<TensorSource> SourcesOf(const ModelTensor& tensor, double lora_scale) {
  const auto filled_by = [&](absl::Status (*fill)(const ModelTensor&, double, uint8_t*)) {
    return [&tensor, lora_scale, fill](uint8_t* out) { return fill(tensor, lora_scale, out); };
  };
  if (!IsInFp8(tensor)) {
    return {{tensor.name, tensor.dtype, tensor.shape, filled_by(FillTensor)}};
  }
  return {{tensor.name, ElementType::kF8E4M3, tensor.shape, filled_by(FillCodes)},
          {absl::StrCat(tensor.name, kScalesOfFp8),
           ElementType::kF32,
           {Fp8Blocks(tensor.shape[0]), Fp8Blocks(tensor.shape[1])},
           filled_by(FillScales)}};
}

nlohmann::ordered_json Fp8Config(const std::vector<ModelTensor>& tensors) {
  constexpr char kHead[] = "lm_head", kWeight[] = ".weight";
  std::vector<std::string> others = {kHead};
  for (const ModelTensor& tensor : tensors) {
    const bool looked_up = tensor.parameter != nullptr && model::IsEmbedding(*tensor.parameter);
    if (IsInFp8(tensor) || looked_up || tensor.shape.size() != 2) continue;
    if (!absl::EndsWith(tensor.name, kWeight)) continue;
    std::string module = tensor.name.substr(0, tensor.name.size() - std::strlen(kWeight));
    if (module != kHead) others.push_back(std::move(module));
  }
  return {{"quant_method", "fp8"},
          {"fmt", "e4m3"},
          {"activation_scheme", "dynamic"},
          {"weight_block_size", {kFp8Block, kFp8Block}},
          {"modules_to_not_convert", others}};
}

}  // namespace coxswain::exports
