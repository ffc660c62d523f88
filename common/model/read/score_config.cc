#include "common/model/read/score_config.h"

#include <filesystem>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/files/read_file.h"
#include "common/model/config_keys.h"
#include "common/status_macros.h"

namespace coxswain::model {
namespace {

using Json = nlohmann::json;

constexpr int64_t kUsualLabels = 2;

// The first of a list; none: the key is absent, or holds no number.
std::optional<int64_t> TokenOf(const Json& config, const char* key) {
  const auto found = config.find(key);
  if (found == config.end()) return std::nullopt;
  const Json& value = found->is_array() && !found->empty() ? (*found)[0] : *found;
  if (!value.is_number_integer()) return std::nullopt;
  return value.get<int64_t>();
}

int64_t LabelsOf(const Json& config) {
  const Json architectures = config.value("architectures", Json::array());
  const bool scores =
      architectures.is_array() && !architectures.empty() && architectures[0].is_string() &&
      absl::EndsWith(architectures[0].get<std::string>(), "ForSequenceClassification");
  if (!scores) return 0;
  const auto names = config.find("id2label");
  if (names != config.end() && names->is_object() && !names->empty()) {
    return static_cast<int64_t>(names->size());
  }
  return TokenOf(config, "num_labels").value_or(kUsualLabels);
}

// Empty where each is that which transformers gives a label without a name.
std::vector<std::string> NamesOf(const Json& config, int64_t labels) {
  const Json names = config.value("id2label", Json::object());
  std::vector<std::string> out;
  bool own = false;
  for (int64_t label = 0; label < labels && names.is_object(); ++label) {
    const Json name = names.value(absl::StrCat(label), Json());
    if (!name.is_string()) return {};
    out.push_back(name.get<std::string>());
    own = own || out.back() != absl::StrCat("LABEL_", label);
  }
  return own ? out : std::vector<std::string>();
}

}  // namespace

absl::StatusOr<ScoreConfig> ReadScoreConfig(const std::string& directory) {
  const std::string path = (std::filesystem::path(directory) / "config.json").string();
  ASSIGN_OR_RETURN(const std::string content, ReadFile(path, kMaxConfigBytes));
  const Json config = Json::parse(content, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is not a JSON object"));
  }
  ScoreConfig out{
      .labels = LabelsOf(config), .names = {}, .pad_token = TokenOf(config, "pad_token_id")};
  out.names = NamesOf(config, out.labels);
  if (!out.pad_token) out.pad_token = TokenOf(config, "eos_token_id");
  return out;
}

}  // namespace coxswain::model
