#include "common/hub/upload/push_plan.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/hub/api/api_answer.h"
#include "common/hub/upload/push_failure.h"
#include "common/outside_text.h"
#include "common/status_macros.h"

namespace coxswain::hub {
namespace {

using Json = nlohmann::json;

constexpr size_t kFilesAskedAtOnce = 256;

struct Told {
  bool in_lfs = false;
  bool ignored = false;
  std::string oid = {};  // of what the branch has at this path; empty: nothing
};

absl::StatusOr<std::string> ModesQuestion(std::vector<PushFile>* files, size_t begin, size_t end) {
  Json asked = Json::array();
  for (size_t i = begin; i < end; ++i) {
    PushFile& file = (*files)[i];
    ASSIGN_OR_RETURN(const std::string sample, file.Sample());
    asked.push_back(
        {{"path", file.path()}, {"sample", absl::Base64Escape(sample)}, {"size", file.bytes()}});
  }
  return Json{{"files", std::move(asked)}}.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void ReadAnswer(const std::string& text, std::map<std::string, Told>* told) {
  const Json answer = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto files = answer.is_object() ? answer.find("files") : answer.end();
  if (files == answer.end() || !files->is_array()) return;
  for (const Json& file : *files) {
    if (!file.is_object() || !file.contains("path") || !file["path"].is_string()) continue;
    const auto mode = file.find("uploadMode"), ignored = file.find("shouldIgnore"),
               oid = file.find("oid");
    Told& one = (*told)[file["path"].get<std::string>()];
    one.in_lfs = mode != file.end() && *mode == "lfs";
    one.ignored = ignored != file.end() && ignored->is_boolean() && ignored->get<bool>();
    if (oid != file.end() && oid->is_string()) one.oid = oid->get<std::string>();
  }
}

absl::StatusOr<std::map<std::string, Told>> AskModes(const Settings& settings,
                                                     const Repository& repository,
                                                     std::vector<PushFile>* files,
                                                     const std::function<bool()>& cancelled) {
  std::map<std::string, Told> told;
  for (size_t at = 0; at < files->size(); at += kFilesAskedAtOnce) {
    ApiPost post{.url = PreuploadUrl(settings.endpoint, repository)};
    ASSIGN_OR_RETURN(post.text,
                     ModesQuestion(files, at, std::min(files->size(), at + kFilesAskedAtOnce)));
    ASSIGN_OR_RETURN(const ApiReply reply, PostApi(settings, post, cancelled));
    if (!reply.end.ok()) return PushFailureOf(reply.end, settings, repository, "a list of files");
    ReadAnswer(reply.body, &told);
  }
  return told;
}

}  // namespace

absl::StatusOr<PushPlan> PlanPush(const Settings& settings, const Repository& repository,
                                  std::vector<PushFile>* files, const PushFile* card,
                                  const std::function<bool()>& cancelled) {
  ASSIGN_OR_RETURN(auto told, AskModes(settings, repository, files, cancelled));
  PushPlan plan;
  for (PushFile& file : *files) {
    const auto found = told.find(file.path());
    if (found == told.end()) {
      return absl::DataLossError(absl::StrCat(
          settings.endpoint, " does not say how it takes ", OneLine(file.path(), kMostNameBytes),
          " of ", NameOf(repository), ": is it a server of the Hub's API?"));
    }
    const Told& one = found->second;
    if (one.ignored) {
      plan.ignored.push_back(file.path());
      continue;
    }
    if (&file == card && !one.oid.empty()) continue;
    PushChange change{.file = &file, .in_lfs = one.in_lfs && file.bytes() > 0, .digest = {}};
    ASSIGN_OR_RETURN(change.digest,
                     file.Digest(change.in_lfs ? DigestKind::kLfs : DigestKind::kGit, cancelled));
    if (change.digest != one.oid) plan.changes.push_back(std::move(change));
  }
  return plan;
}

}  // namespace coxswain::hub
