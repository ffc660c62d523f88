#include "tests/support/image_text_folder.h"

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <vector>

#include "common/files/safetensors/safetensors_writer.h"
#include "common/files/weights/weight_files.h"
#include "tests/support/golden_folder.h"

namespace coxswain::support {

void WriteImageTextModel(const std::string& folder) {
  const std::string text = GoldenFolder("gemma3_text_full");
  const nlohmann::json config = {
      {"architectures", {"Gemma3ForConditionalGeneration"}},
      {"model_type", "gemma3"},
      {"text_config", nlohmann::json::parse(std::ifstream(text + "/config.json"))},
      {"vision_config", {{"model_type", "siglip_vision_model"}}}};
  std::ofstream(folder + "/config.json") << config.dump();
  const auto weights = WeightFiles::Open(text);
  if (!weights.ok()) throw std::runtime_error(weights.status().ToString());
  std::vector<TensorSource> tensors;
  for (const TensorInfo* tensor : (*weights)->tensors()) {
    tensors.push_back(
        {"language_model." + tensor->name, tensor->dtype, tensor->shape, [tensor](uint8_t* out) {
           std::memcpy(out, tensor->data, static_cast<size_t>(tensor->bytes));
           return absl::OkStatus();
         }});
  }
  tensors.push_back({kBesideText, ElementType::kF32, {2, 3}, [](uint8_t* out) {
                       const float values[] = {0, 1, 2, 3, 4, 5};
                       std::memcpy(out, values, sizeof(values));
                       return absl::OkStatus();
                     }});
  const auto written = WriteSafetensors(folder + "/model.safetensors", tensors);
  if (!written.ok()) throw std::runtime_error(written.status().ToString());
}

}  // namespace coxswain::support
