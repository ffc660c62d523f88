#include "common/hub/api/repository.h"

#include <algorithm>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "common/hub/api/url.h"
#include "common/outside_text.h"
#include "common/status_macros.h"

namespace coxswain::hub {
namespace {

constexpr size_t kMostPartBytes = 96;
constexpr size_t kMostRevisionBytes = 255;

bool IsWordCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_';
}

bool IsPart(const std::string& part) {
  return !part.empty() && part.size() <= kMostPartBytes && IsWordCharacter(part.front()) &&
         IsWordCharacter(part.back()) && std::all_of(part.begin(), part.end(), [](char c) {
           return IsWordCharacter(c) || c == '-' || c == '.';
         });
}

// Source: huggingface_hub, the rules of validate_repo_id.
bool IsId(const std::string& id) {
  const std::vector<std::string> parts = absl::StrSplit(id, '/');
  return parts.size() <= 2 && std::all_of(parts.begin(), parts.end(), IsPart) &&
         id.find("--") == std::string::npos && id.find("..") == std::string::npos &&
         !id.ends_with(".git");
}

// Source: git check-ref-format(1).
bool IsRevision(const std::string& revision) {
  constexpr std::string_view kRefused = " ~^:?*[\\\x7F";
  if (revision.size() > kMostRevisionBytes || revision.find("..") != std::string::npos ||
      revision.find("@{") != std::string::npos || revision.ends_with('.')) {
    return false;
  }
  const std::vector<std::string> parts = absl::StrSplit(revision, '/');
  const bool named = std::all_of(parts.begin(), parts.end(), [](const std::string& part) {
    return !part.empty() && part[0] != '.' && !part.ends_with(".lock");
  });
  return named && std::all_of(revision.begin(), revision.end(), [&](char c) {
           return static_cast<unsigned char>(c) > 0x1F &&
                  kRefused.find(c) == std::string_view::npos;
         });
}

std::string TypePlural(const Repository& repository) {
  return repository.type == RepositoryType::kModel ? "models" : "datasets";
}

std::string ApiUrl(const std::string& endpoint, const Repository& repository) {
  return absl::StrCat(endpoint, "/api/", TypePlural(repository), "/", repository.id);
}

}  // namespace

absl::StatusOr<Repository> MakeRepository(RepositoryType type, const std::string& id,
                                          const std::string& revision) {
  if (!IsId(id)) {
    return absl::InvalidArgumentError(absl::StrCat(
        OneLine(id, kMostNameBytes),
        " is no id of the Hub: write org/name or name, of letters, digits, '-', '_' and '.', "
        "without '--' or '..', not ending in '.git'"));
  }
  if (!IsRevision(revision)) {
    return absl::InvalidArgumentError(absl::StrCat("revision ", OneLine(revision, kMostNameBytes),
                                                   " of ", id,
                                                   " is no name of a branch, tag or commit"));
  }
  return Repository{.type = type, .id = id, .revision = revision};
}

std::string FolderName(const Repository& repository) {
  return absl::StrCat(TypePlural(repository), "--",
                      absl::StrReplaceAll(repository.id, {{"/", "--"}}));
}

bool IsCommit(std::string_view revision) {
  return revision.size() == 40 && std::all_of(revision.begin(), revision.end(), [](char c) {
           return absl::ascii_isdigit(static_cast<unsigned char>(c)) || (c >= 'a' && c <= 'f');
         });
}

std::string NameOf(const Repository& repository) {
  return absl::StrCat(repository.type == RepositoryType::kModel ? "model " : "dataset ",
                      repository.id);
}

std::string PageUrl(const std::string& endpoint, const Repository& repository) {
  return absl::StrCat(endpoint, repository.type == RepositoryType::kModel ? "/" : "/datasets/",
                      repository.id);
}

std::string RevisionUrl(const std::string& endpoint, const Repository& repository) {
  return absl::StrCat(ApiUrl(endpoint, repository), "/revision/",
                      EscapeSegment(repository.revision));
}

std::string TreeUrl(const std::string& endpoint, const Repository& repository,
                    const std::string& commit) {
  return absl::StrCat(ApiUrl(endpoint, repository), "/tree/", commit, "?recursive=true");
}

std::string FileUrl(const std::string& endpoint, const Repository& repository,
                    const std::string& commit, const std::string& path) {
  return absl::StrCat(PageUrl(endpoint, repository), "/resolve/", commit, "/", EscapePath(path));
}

std::string PreuploadUrl(const std::string& endpoint, const Repository& repository) {
  return absl::StrCat(ApiUrl(endpoint, repository), "/preupload/",
                      EscapeSegment(repository.revision));
}

std::string NewCommitUrl(const std::string& endpoint, const Repository& repository) {
  return absl::StrCat(ApiUrl(endpoint, repository), "/commit/", EscapeSegment(repository.revision));
}

std::string BranchUrl(const std::string& endpoint, const Repository& repository) {
  return absl::StrCat(ApiUrl(endpoint, repository), "/branch/", EscapeSegment(repository.revision));
}

std::string CommitPageUrl(const std::string& endpoint, const Repository& repository,
                          const std::string& commit) {
  return absl::StrCat(PageUrl(endpoint, repository), "/commit/", commit);
}

}  // namespace coxswain::hub
