#include "common/hub/api/hub_settings.h"

#include <cstdlib>
#include <filesystem>
#include <initializer_list>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/files/read_file.h"
#include "common/hub/api/url.h"
#include "common/status_macros.h"

namespace coxswain::hub {
namespace {

constexpr int64_t kMostTokenBytes = 4096;

struct Variable {
  std::string name;   // empty: none is set
  std::string value;  // not empty where name is not
};

Variable FirstSet(const Environment& environment, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const char* value = environment(name);
    if (value != nullptr && *value != '\0') return {name, value};
  }
  return {};
}

bool IsTrue(const Variable& variable) {
  const std::string word = absl::AsciiStrToUpper(variable.value);
  return word == "1" || word == "ON" || word == "YES" || word == "TRUE";
}

// $NAME and ${NAME}; what is not set stays as it is.
std::string WithVariables(const Environment& environment, const std::string& text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const bool braced = text.compare(at, 2, "${") == 0;
    const size_t begin = at + (braced ? 2 : 1);
    size_t end = begin;
    while (end < text.size() &&
           (absl::ascii_isalnum(static_cast<unsigned char>(text[end])) || text[end] == '_')) {
      ++end;
    }
    const bool named = text[at] == '$' && end > begin && (!braced || text[end] == '}');
    const char* value = named ? environment(text.substr(begin, end - begin).c_str()) : nullptr;
    if (value == nullptr) {
      out += text[at++];
    } else {
      out += value;
      at = end + (braced ? 1 : 0);
    }
  }
  return out;
}

std::string Home(const Environment& environment) {
  const Variable home = FirstSet(environment, {"HOME"});
  return home.name.empty() ? "/tmp" : home.value;
}

std::string Path(const Environment& environment, std::string text) {
  if (text == "~" || text.compare(0, 2, "~/") == 0) text.replace(0, 1, Home(environment));
  const std::filesystem::path path = WithVariables(environment, text);
  std::string absolute = std::filesystem::absolute(path).lexically_normal().string();
  if (absolute.size() > 1 && absolute.ends_with('/')) absolute.pop_back();
  return absolute;
}

std::string PathOf(const Environment& environment, std::initializer_list<const char*> names,
                   const std::string& otherwise) {
  const Variable found = FirstSet(environment, names);
  return Path(environment, found.name.empty() ? otherwise : found.value);
}

absl::StatusOr<std::string> ReadEndpoint(const Environment& environment) {
  const Variable found = FirstSet(environment, {"HF_ENDPOINT"});
  if (found.name.empty()) return Settings().endpoint;
  std::string endpoint = found.value;
  while (endpoint.ends_with('/')) endpoint.pop_back();
  if (OriginOf(endpoint).ok() && !HasSecrets(endpoint)) return endpoint;
  return absl::InvalidArgumentError(
      absl::StrCat("HF_ENDPOINT is ", PublicUrl(endpoint),
                   HasSecrets(endpoint) ? " with a user, a password or a query" : "",
                   ": write it as https://host or https://host/path"));
}

absl::StatusOr<Token> ReadToken(const Environment& environment, const std::string& home) {
  if (IsTrue(FirstSet(environment, {"HF_HUB_DISABLE_IMPLICIT_TOKEN"}))) return Token();
  const Variable found = FirstSet(environment, {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"});
  if (!found.name.empty()) return Token::Parse(found.value, found.name);
  const std::string file = PathOf(environment, {"HF_TOKEN_PATH"}, home + "/token");
  const absl::StatusOr<std::string> text = ReadFile(file, kMostTokenBytes);
  if (absl::IsNotFound(text.status())) return Token();
  RETURN_IF_ERROR(text.status());
  return Token::Parse(*text, file);
}

}  // namespace

absl::StatusOr<Settings> ReadSettings(const Environment& environment) {
  Settings settings;
  const std::string caches = PathOf(environment, {"XDG_CACHE_HOME"}, Home(environment) + "/.cache");
  const std::string home = PathOf(environment, {"HF_HOME"}, caches + "/huggingface");
  ASSIGN_OR_RETURN(settings.endpoint, ReadEndpoint(environment));
  ASSIGN_OR_RETURN(settings.token, ReadToken(environment, home));
  settings.cache = PathOf(environment, {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}, home + "/hub");
  settings.offline = IsTrue(FirstSet(environment, {"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"}));
  settings.ca_file =
      FirstSet(environment, {"CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"}).value;
  return settings;
}

absl::StatusOr<Settings> ReadSettings() {
  return ReadSettings([](const char* name) -> const char* { return std::getenv(name); });
}

}  // namespace coxswain::hub
