// A model that reads images too, around a text model.
#ifndef COXSWAIN_TESTS_SUPPORT_IMAGE_TEXT_FOLDER_H_
#define COXSWAIN_TESTS_SUPPORT_IMAGE_TEXT_FOLDER_H_

#include <string>

namespace coxswain::support {

// What a tensor beside the text holds: float32 [2, 3], the values 0 .. 5.
inline constexpr char kBesideText[] = "vision_tower.encoder.layers.0.self_attn.q_proj.weight";

// Writes into `folder` the text model of golden case gemma3_text_full as part of a
// Gemma3ForConditionalGeneration, under the names of published files. Throws std::runtime_error.
void WriteImageTextModel(const std::string& folder);

}  // namespace coxswain::support

#endif  // COXSWAIN_TESTS_SUPPORT_IMAGE_TEXT_FOLDER_H_
