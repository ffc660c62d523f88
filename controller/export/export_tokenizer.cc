#include "controller/export/export_tokenizer.h"

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files/durable_file.h"
#include "common/files/read_file.h"
#include "common/status_macros.h"
#include "controller/export/artifact_files.h"
#include "controller/written_names.h"

namespace coxswain::exports {
namespace {

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
                   " when the job began; put the tokenizer of then back and export again"));
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

}  // namespace

absl::Status WriteTokenizer(const config::JobSpec& job, const plan::Plan& plan,
                            const std::string& directory) {
  const std::string& base = plan.model_path;
  RETURN_IF_ERROR(CopyFilesThatExist(base, directory, TokenizerFiles()));
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
