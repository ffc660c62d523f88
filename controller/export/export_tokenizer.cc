#include "controller/export/export_tokenizer.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files/durable_file.h"
#include "common/files/read_file.h"
#include "common/status_macros.h"
#include "controller/export/artifact_files.h"
#include "controller/folders/written_names.h"

namespace coxswain::exports {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct NewToken {
  std::string content;
  int64_t id = 0;
};

// As tokenizers writes a special token.
Json Entry(const std::string& content) {
  return {{"content", content}, {"single_word", false}, {"lstrip", false},
          {"rstrip", false},    {"normalized", false},  {"special", true}};
}

// A vocabulary of byte pairs is an object, of unigrams a list of [token, score].
std::set<std::string> TokensOf(const Json& tokenizer) {
  std::set<std::string> tokens;
  const Json& vocab = tokenizer.at("model").at("vocab");
  for (const auto& [token, id] : vocab.items()) {
    tokens.insert(vocab.is_object() ? token : id.at(0).get<std::string>());
  }
  if (!tokenizer.contains("added_tokens")) return tokens;
  for (const Json& entry : tokenizer.at("added_tokens")) tokens.insert(entry.at("content"));
  return tokens;
}

absl::StatusOr<std::vector<NewToken>> NewTokens(const config::JobSpec& job, const plan::Plan& plan,
                                                const Json& tokenizer) {
  std::set<std::string> known = TokensOf(tokenizer);
  std::vector<NewToken> tokens;
  const model::AddedTokens& added = plan.model.added_tokens;
  for (const std::string& content : job.added_tokens) {
    if (!known.insert(content).second) continue;
    tokens.push_back({content, added.known + static_cast<int64_t>(tokens.size())});
  }
  if (static_cast<int64_t>(tokens.size()) == added.count) return tokens;
  return absl::FailedPreconditionError(
      absl::StrCat(plan.model_path, "/tokenizer.json lacks ", tokens.size(),
                   " of base_model.added_tokens, and lacked ", added.count,
                   " when the job began; put that tokenizer back and export again"));
}

// Rewrites the file `name` of the base by `change`, where it is there. InvalidArgument: it is not
// what `change` takes it for.
absl::Status Rewrite(const std::string& from, const std::string& to, const char* name,
                     const std::function<void(Json*)>& change) {
  const absl::StatusOr<std::string> text = ReadFile(absl::StrCat(from, "/", name));
  if (absl::IsNotFound(text.status())) return absl::OkStatus();
  RETURN_IF_ERROR(text.status());
  Json json = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(from, "/", name, " is not a JSON object"));
  }
  try {
    change(&json);
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat(from, "/", name,
                                                   " is not a tokenizer's: ", error.what(),
                                                   "; put it back as it was and export again"));
  }
  return WriteFileDurably(absl::StrCat(to, "/", name),
                          json.dump(2, ' ', false, Json::error_handler_t::replace));
}

absl::Status CopyNamedTemplates(const std::string& base, const std::string& directory) {
  constexpr char kFolder[] = "additional_chat_templates";
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(fs::path(base) / kFolder, none)) {
    if (entry.path().extension() == ".jinja") names.push_back(entry.path().filename().string());
  }
  if (names.empty()) return absl::OkStatus();
  const std::string to = absl::StrCat(directory, "/", kFolder);
  std::error_code error;
  fs::create_directories(to, error);
  if (error) return absl::InternalError(absl::StrCat("cannot create ", to, ": ", error.message()));
  return CopyFilesThatExist(absl::StrCat(base, "/", kFolder), to, names);
}

// eos_token_id of a file: an id, a list of them, or nothing.
Json EndsOf(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(path);
  const Json json = text.ok() ? Json::parse(*text, nullptr, /*allow_exceptions=*/false) : Json();
  if (!json.is_object() || !json.contains("eos_token_id")) return Json::array();
  const Json& ends = json["eos_token_id"];
  if (ends.is_array()) return ends;
  return ends.is_number_integer() ? Json::array({ends}) : Json::array();
}

}  // namespace

absl::Status WriteTrainedFormat(const TrainedFormat& format, const plan::Plan& plan,
                                const std::string& directory) {
  if (!format.chat_template.empty()) {
    RETURN_IF_ERROR(
        WriteFileDurably(absl::StrCat(directory, "/chat_template.jinja"), format.chat_template));
  }
  constexpr char kFile[] = "generation_config.json";
  Json ends = EndsOf(absl::StrCat(plan.model_path, "/", kFile));
  if (ends.empty()) ends = EndsOf(absl::StrCat(plan.model_path, "/config.json"));
  const size_t known = ends.size();
  for (const int64_t id : format.ends) {
    if (std::find(ends.begin(), ends.end(), id) == ends.end()) ends.push_back(id);
  }
  if (ends.size() == known) return CopyFilesThatExist(plan.model_path, directory, {kFile});
  const absl::StatusOr<std::string> text = ReadFile(absl::StrCat(plan.model_path, "/", kFile));
  Json config = text.ok() ? Json::parse(*text, nullptr, /*allow_exceptions=*/false) : Json();
  if (!config.is_object()) config = Json::object();
  config["eos_token_id"] = ends.size() == 1 ? ends[0] : ends;
  return WriteFileDurably(absl::StrCat(directory, "/", kFile), config.dump(2) + "\n");
}

absl::Status WriteTokenizer(const config::JobSpec& job, const plan::Plan& plan,
                            const std::string& directory) {
  const std::string& base = plan.model_path;
  RETURN_IF_ERROR(CopyFilesThatExist(base, directory, TokenizerFiles()));
  RETURN_IF_ERROR(CopyNamedTemplates(base, directory));
  if (plan.model.added_tokens.count == 0) return absl::OkStatus();
  absl::StatusOr<std::vector<NewToken>> tokens =
      absl::NotFoundError(absl::StrCat(base, "/tokenizer.json is gone"));
  RETURN_IF_ERROR(Rewrite(base, directory, "tokenizer.json", [&](Json* json) {
    tokens = NewTokens(job, plan, *json);
    if (!tokens.ok()) return;
    for (const NewToken& token : *tokens) {
      Json entry = {{"id", token.id}};
      entry.update(Entry(token.content));
      (*json)["added_tokens"].push_back(std::move(entry));
    }
  }));
  RETURN_IF_ERROR(tokens.status());
  RETURN_IF_ERROR(Rewrite(base, directory, "tokenizer_config.json", [&](Json* json) {
    if (!json->contains("added_tokens_decoder")) return;
    for (const NewToken& token : *tokens) {
      (*json)["added_tokens_decoder"][absl::StrCat(token.id)] = Entry(token.content);
    }
  }));
  return Rewrite(base, directory, "added_tokens.json", [&](Json* json) {
    for (const NewToken& token : *tokens) (*json)[token.content] = token.id;
  });
}

}  // namespace coxswain::exports
