#include "common/hub/api/repository_listing.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/hub/api/api_answer.h"
#include "common/hub/api/url.h"
#include "common/outside_text.h"
#include "common/status_macros.h"

namespace coxswain::hub {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostPathBytes = 4095;
constexpr size_t kMostNameInPathBytes = 255;
constexpr size_t kMostFiles = 1'000'000;
constexpr int kMostPages = 10'000;

absl::Status NotOfTheHub(const Settings& settings, const Repository& repository,
                         const std::string& what) {
  return absl::DataLossError(absl::StrCat(settings.endpoint, " answered for ", NameOf(repository),
                                          " ", what, ": is it a server of the Hub's API?"));
}

std::string TextOf(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

int64_t BytesOf(const Json& object) {
  const auto found = object.find("size");
  return found != object.end() && found->is_number_unsigned() ? found->get<int64_t>() : -1;
}

absl::StatusOr<HubFile> ReadFileEntry(const Json& entry) {
  HubFile file{
      .path = TextOf(entry, "path"), .bytes = BytesOf(entry), .etag = TextOf(entry, "oid")};
  const auto lfs = entry.find("lfs");
  if (lfs != entry.end() && lfs->is_object()) {
    file.bytes = BytesOf(*lfs);
    file.etag = TextOf(*lfs, "oid");
  }
  RETURN_IF_ERROR(CheckPath(file.path));
  if (file.bytes < 0 || !IsEtag(file.etag)) {
    return absl::DataLossError(absl::StrCat(OneLine(file.path, kMostNameBytes), " with ",
                                            file.bytes, " bytes and hash ",
                                            OneLine(file.etag, kMostNameBytes)));
  }
  return file;
}

absl::Status ReadPage(const std::string& text, std::vector<HubFile>* files) {
  const Json page = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!page.is_array()) return absl::DataLossError("what is no list of files");
  for (const Json& entry : page) {
    if (!entry.is_object()) return absl::DataLossError("a file that is no object");
    if (TextOf(entry, "type") != "file") continue;
    ASSIGN_OR_RETURN(HubFile file, ReadFileEntry(entry));
    files->push_back(std::move(file));
  }
  return files->size() <= kMostFiles
             ? absl::OkStatus()
             : absl::DataLossError(absl::StrCat("more than ", kMostFiles, " files"));
}

}  // namespace

absl::Status CheckPath(const std::string& path) {
  const std::vector<std::string> names = absl::StrSplit(path, '/');
  const bool named = std::all_of(names.begin(), names.end(), [](const std::string& name) {
    return !name.empty() && name != "." && name != ".." && name.size() <= kMostNameInPathBytes;
  });
  if (named && path.size() <= kMostPathBytes && path.find('\0') == std::string::npos) {
    return absl::OkStatus();
  }
  return absl::DataLossError(
      absl::StrCat("the path ", OneLine(path, kMostNameBytes), ", which is refused"));
}

bool IsEtag(const std::string& etag) {
  return (etag.size() == 40 || etag.size() == 64) &&
         etag.find_first_not_of("0123456789abcdef") == std::string::npos;
}

absl::StatusOr<std::string> AskCommit(const Settings& settings, const Repository& repository,
                                      const std::function<bool()>& cancelled) {
  ASSIGN_OR_RETURN(
      const ApiAnswer answer,
      AskApi(settings, repository, RevisionUrl(settings.endpoint, repository), cancelled));
  const Json info = Json::parse(answer.body, nullptr, /*allow_exceptions=*/false);
  const std::string commit = info.is_object() ? TextOf(info, "sha") : "";
  if (IsCommit(commit)) return commit;
  return NotOfTheHub(settings, repository, "without a commit");
}

absl::StatusOr<std::vector<HubFile>> AskFiles(const Settings& settings,
                                              const Repository& repository,
                                              const std::string& commit,
                                              const std::function<bool()>& cancelled) {
  std::vector<HubFile> files;
  std::string url = TreeUrl(settings.endpoint, repository, commit);
  for (int page = 0; !url.empty(); ++page) {
    ASSIGN_OR_RETURN(const ApiAnswer answer, AskApi(settings, repository, url, cancelled));
    const absl::Status read = ReadPage(answer.body, &files);
    if (!read.ok()) return NotOfTheHub(settings, repository, std::string(read.message()));
    if (page == kMostPages) return NotOfTheHub(settings, repository, "with pages without end");
    url = answer.next;
  }
  return files;
}

}  // namespace coxswain::hub
