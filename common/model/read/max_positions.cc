#include "common/model/read/max_positions.h"

#include <nlohmann/json.hpp>

#include "common/files/read_file.h"

namespace coxswain::model {

std::optional<int64_t> MaxPositions(const std::string& directory) {
  const absl::StatusOr<std::string> text = ReadFile(directory + "/config.json", kMaxConfigBytes);
  if (!text.ok()) return std::nullopt;
  const nlohmann::json config = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  for (const char* part : {"/max_position_embeddings", "/text_config/max_position_embeddings"}) {
    const nlohmann::json::json_pointer at(part);
    if (!config.is_object() || !config.contains(at)) continue;
    const nlohmann::json& value = config.at(at);
    if (value.is_number_integer() && value > 0) return value.get<int64_t>();
  }
  return std::nullopt;
}

}  // namespace coxswain::model
