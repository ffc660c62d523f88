#include "common/web/model_folder.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/hub/api/url.h"
#include "common/outside_text.h"
#include "common/status_macros.h"
#include "common/web/ask_url.h"

namespace coxswain::web {
namespace {

constexpr char kConfig[] = "config.json";
constexpr int64_t kMostIndexBytes = int64_t{16} << 20;
constexpr size_t kMostShards = 1000;

const std::vector<std::string>& Beside() {
  static const auto* const kNames = new std::vector<std::string>{"added_tokens.json",
                                                                 "chat_template.jinja",
                                                                 "chat_template.json",
                                                                 "generation_config.json",
                                                                 "merges.txt",
                                                                 "special_tokens_map.json",
                                                                 "tokenizer.json",
                                                                 "tokenizer.model",
                                                                 "tokenizer_config.json",
                                                                 "vocab.json",
                                                                 "vocab.txt"};
  return *kNames;
}

// In the order in which a reader of models prefers them.
const std::vector<std::string>& Weights() {
  static const auto* const kNames =
      new std::vector<std::string>{"model.safetensors", "model.safetensors.index.json",
                                   "pytorch_model.bin", "pytorch_model.bin.index.json"};
  return *kNames;
}

// Those of `names` that are there.
absl::StatusOr<UrlListing> AskFor(const hub::Settings& settings, const UrlSource& source,
                                  const std::vector<std::string>& names,
                                  const std::function<bool()>& cancelled) {
  std::vector<std::string> urls;
  for (const std::string& name : names) urls.push_back(UrlIn(source.url, name));
  ASSIGN_OR_RETURN(const std::vector<UrlFacts> facts, AskFacts(settings, urls, cancelled));
  UrlListing listing;
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == kConfig) RETURN_IF_ERROR(facts[i].there);
    if (!facts[i].there.ok()) continue;
    listing.push_back({.name = names[i], .identity = facts[i].identity, .bytes = facts[i].bytes});
  }
  return listing;
}

absl::StatusOr<std::vector<std::string>> ShardsOf(const std::string& text, const std::string& url) {
  const auto index = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const std::string shown = hub::PublicUrl(url);
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(shown, " has no weight_map"));
  }
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : index["weight_map"].items()) {
    const std::string name = shard.is_string() ? shard.get<std::string>() : "";
    const bool weights = absl::EndsWith(name, ".safetensors") || absl::EndsWith(name, ".bin");
    if (!IsFileName(name) || !weights) {
      return absl::InvalidArgumentError(absl::StrCat(
          shown, ": weight_map names '", OneLine(name, kMostNameBytes), "', which is no shard"));
    }
    shards.insert(name);
  }
  if (shards.empty() || shards.size() > kMostShards) {
    return absl::InvalidArgumentError(
        absl::StrCat(shown, " names ", shards.size(), " shards, allowed: 1 to ", kMostShards));
  }
  return std::vector<std::string>(shards.begin(), shards.end());
}

// Adds the shards that `index` names; each must be there.
absl::Status AddShards(const hub::Settings& settings, const UrlSource& source, const UrlFile& index,
                       const std::function<bool()>& cancelled, UrlListing* listing) {
  const std::string url = UrlIn(source.url, index.name);
  ASSIGN_OR_RETURN(const std::string text,
                   AskText(settings, url, index, kMostIndexBytes, cancelled));
  ASSIGN_OR_RETURN(const std::vector<std::string> names, ShardsOf(text, url));
  ASSIGN_OR_RETURN(const UrlListing shards, AskFor(settings, source, names, cancelled));
  listing->insert(listing->end(), shards.begin(), shards.end());
  for (const std::string& name : names) {
    const bool there = std::any_of(shards.begin(), shards.end(),
                                   [&](const UrlFile& shard) { return shard.name == name; });
    if (there) continue;
    return absl::NotFoundError(absl::StrCat(hub::PublicUrl(UrlIn(source.url, name)),
                                            " does not exist, but ", index.name, " names it"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<UrlListing> AskModel(const hub::Settings& settings, const UrlSource& source,
                                    const std::function<bool()>& cancelled) {
  std::vector<std::string> names = Beside();
  names.push_back(kConfig);
  ASSIGN_OR_RETURN(UrlListing listing, AskFor(settings, source, names, cancelled));
  ASSIGN_OR_RETURN(const UrlListing weights, AskFor(settings, source, Weights(), cancelled));
  if (weights.empty()) {
    return absl::NotFoundError(absl::StrCat(NameOf(source), " has config.json and no weights: ",
                                            "none of ", absl::StrJoin(Weights(), ", ")));
  }
  listing.push_back(weights.front());
  if (absl::EndsWith(weights.front().name, ".json")) {
    RETURN_IF_ERROR(AddShards(settings, source, weights.front(), cancelled, &listing));
  }
  std::sort(listing.begin(), listing.end(),
            [](const UrlFile& a, const UrlFile& b) { return a.name < b.name; });
  return listing;
}

}  // namespace coxswain::web
