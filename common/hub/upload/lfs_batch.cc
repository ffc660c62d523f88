#include "common/hub/upload/lfs_batch.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/hub/api/api_answer.h"
#include "common/hub/api/http_calls.h"
#include "common/hub/api/url.h"
#include "common/hub/upload/push_failure.h"
#include "common/outside_text.h"
#include "common/status_macros.h"

namespace coxswain::hub {
namespace {

using Json = nlohmann::json;

constexpr size_t kObjectsAskedAtOnce = 256;
constexpr char kPublicHub[] = "https://huggingface.co";

std::string TextAt(const Json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

const Json& ObjectAt(const Json& object, const char* key) {
  static const Json kNone = Json::object();
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() && found->is_object() ? *found : kNone;
}

absl::Status NoBatch(const Settings& settings, const std::string& what) {
  return absl::DataLossError(absl::StrCat(settings.endpoint, " answered a batch of Git LFS ", what,
                                          ": is it a server of the Hub's API?"));
}

// A mirror of the Hub may name the Hub itself. Source: huggingface_hub, fix_hf_endpoint_in_url.
absl::StatusOr<std::string> UrlOf(const Settings& settings, std::string href) {
  if (href.starts_with(kPublicHub)) href.replace(0, sizeof(kPublicHub) - 1, settings.endpoint);
  RETURN_IF_ERROR(OriginOf(href).status());
  if (!settings.endpoint.starts_with("https://") || href.starts_with("https://")) return href;
  return NoBatch(settings, absl::StrCat("with ", PublicUrl(href), ", which is not of https"));
}

// The keys "1", "2", ... of `header`, which are URLs, by number.
absl::Status ReadParts(const Settings& settings, const Json& header, int64_t bytes,
                       LfsAction* action) {
  const auto chunk = header.find("chunk_size");
  if (chunk == header.end()) return absl::OkStatus();
  const std::string text = chunk->is_string() ? chunk->get<std::string>() : chunk->dump();
  std::map<int64_t, std::string> parts;
  for (const auto& [key, value] : header.items()) {
    int64_t number = 0;
    if (!absl::SimpleAtoi(key, &number) || !value.is_string()) continue;
    ASSIGN_OR_RETURN(parts[number], UrlOf(settings, value.get<std::string>()));
  }
  const bool read = absl::SimpleAtoi(text, &action->part_bytes) && action->part_bytes > 0;
  const auto count = static_cast<int64_t>(parts.size());
  if (!read || count != 1 + (bytes - 1) / action->part_bytes) {
    return NoBatch(settings, absl::StrCat("with ", count, " parts of ",
                                          OneLine(text, kMostNameBytes), " bytes for ", bytes));
  }
  for (auto& [number, url] : parts) action->part_urls.push_back(std::move(url));
  return absl::OkStatus();
}

absl::StatusOr<LfsAction> ReadAction(const Settings& settings, const Json& entry, int64_t bytes) {
  LfsAction action;
  const Json& upload = ObjectAt(ObjectAt(entry, "actions"), "upload");
  const std::string href = TextAt(upload, "href");
  action.there = href.empty();
  if (action.there) return action;
  ASSIGN_OR_RETURN(action.upload_url, UrlOf(settings, href));
  RETURN_IF_ERROR(ReadParts(settings, ObjectAt(upload, "header"), bytes, &action));
  const std::string verify = TextAt(ObjectAt(ObjectAt(entry, "actions"), "verify"), "href");
  if (verify.empty()) return action;
  ASSIGN_OR_RETURN(action.verify_url, UrlOf(settings, verify));
  return action;
}

// An object that the Hub refuses by itself.
absl::Status Refused(const Settings& settings, const Repository& repository, const Json& error,
                     const std::string& oid) {
  HttpEnd end;
  end.head.url = settings.endpoint;
  const auto code = error.find("code");
  if (code != error.end() && code->is_number_integer()) end.head.status = code->get<int>();
  end.said = error.dump(-1, ' ', false, Json::error_handler_t::replace);
  return PushFailureOf(end, settings, repository, absl::StrCat("content ", oid.substr(0, 12)));
}

std::string BatchQuestion(const Repository& repository, const std::vector<LfsObject>& objects) {
  Json asked = Json::array();
  for (const LfsObject& object : objects) {
    asked.push_back({{"oid", object.oid}, {"size", object.bytes}});
  }
  const Json question = {{"operation", "upload"},
                         {"transfers", {"basic", "multipart"}},
                         {"objects", std::move(asked)},
                         {"hash_algo", "sha256"},
                         {"ref", {{"name", repository.revision}}}};
  return question.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::Status AskSome(const Settings& settings, const Repository& repository,
                     const std::vector<LfsObject>& objects, const std::function<bool()>& cancelled,
                     std::vector<LfsAction>* actions) {
  const ApiPost post{
      .url = absl::StrCat(PageUrl(settings.endpoint, repository), ".git/info/lfs/objects/batch"),
      .text = BatchQuestion(repository, objects),
      .type = kLfsType};
  ASSIGN_OR_RETURN(const ApiReply reply, PostApi(settings, post, cancelled));
  if (!reply.end.ok()) return PushFailureOf(reply.end, settings, repository, "a list of contents");
  const Json answer = Json::parse(reply.body, nullptr, /*allow_exceptions=*/false);
  const auto entries = answer.is_object() ? answer.find("objects") : answer.end();
  if (entries == answer.end() || !entries->is_array()) return NoBatch(settings, "with no objects");
  for (const LfsObject& object : objects) {
    const auto entry = std::find_if(entries->begin(), entries->end(), [&](const Json& one) {
      return TextAt(one, "oid") == object.oid;
    });
    if (entry == entries->end()) return NoBatch(settings, "without " + object.oid);
    if (entry->contains("error")) {
      return Refused(settings, repository, ObjectAt(*entry, "error"), object.oid);
    }
    ASSIGN_OR_RETURN(LfsAction action, ReadAction(settings, *entry, object.bytes));
    actions->push_back(std::move(action));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<LfsAction>> AskBatch(const Settings& settings,
                                                const Repository& repository,
                                                const std::vector<LfsObject>& objects,
                                                const std::function<bool()>& cancelled) {
  std::vector<LfsAction> actions;
  for (size_t at = 0; at < objects.size(); at += kObjectsAskedAtOnce) {
    const size_t end = std::min(objects.size(), at + kObjectsAskedAtOnce);
    RETURN_IF_ERROR(AskSome(settings, repository,
                            {objects.begin() + static_cast<std::ptrdiff_t>(at),
                             objects.begin() + static_cast<std::ptrdiff_t>(end)},
                            cancelled, &actions));
  }
  return actions;
}

}  // namespace coxswain::hub
