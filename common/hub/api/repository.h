// A repository of the Hub, and one of its revisions.
#ifndef COXSWAIN_COMMON_HUB_API_REPOSITORY_H_
#define COXSWAIN_COMMON_HUB_API_REPOSITORY_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace coxswain::hub {

enum class RepositoryType { kModel, kDataset };

inline constexpr char kDefaultRevision[] = "main";

struct Repository {
  RepositoryType type = RepositoryType::kModel;
  std::string id;                           // "org/name" or "name"
  std::string revision = kDefaultRevision;  // a branch, a tag, a commit, refs/pr/1
};

// InvalidArgument says which rule the id or the revision breaks. Every other function of this room
// takes what this one let through: id and revision are parts of paths and URLs.
absl::StatusOr<Repository> MakeRepository(RepositoryType type, const std::string& id,
                                          const std::string& revision = kDefaultRevision);

// "models--org--name": its folder in a cache.
std::string FolderName(const Repository& repository);

// 40 hexadecimal digits in lower case: a revision that cannot move.
bool IsCommit(std::string_view revision);

// "model org/name": for messages.
std::string NameOf(const Repository& repository);

// Where people read about it and accept its conditions.
std::string PageUrl(const std::string& endpoint, const Repository& repository);
// What the Hub knows of `revision`.
std::string RevisionUrl(const std::string& endpoint, const Repository& repository);
// The files of `commit`.
std::string TreeUrl(const std::string& endpoint, const Repository& repository,
                    const std::string& commit);
// The content of the file `path`.
std::string FileUrl(const std::string& endpoint, const Repository& repository,
                    const std::string& commit, const std::string& path);

// What takes files, and commits, of the branch `repository.revision`; what makes that branch.
std::string PreuploadUrl(const std::string& endpoint, const Repository& repository);
std::string NewCommitUrl(const std::string& endpoint, const Repository& repository);
std::string BranchUrl(const std::string& endpoint, const Repository& repository);
// Where people see `commit`.
std::string CommitPageUrl(const std::string& endpoint, const Repository& repository,
                          const std::string& commit);

}  // namespace coxswain::hub

#endif  // COXSWAIN_COMMON_HUB_API_REPOSITORY_H_
