// Folders of files as repositories of the Hub.
#ifndef COXSWAIN_TESTS_SUPPORT_HUB_REPOSITORIES_H_
#define COXSWAIN_TESTS_SUPPORT_HUB_REPOSITORIES_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace coxswain::support {

struct ServedFile {
  std::string path;     // in the repository
  std::string on_disk;  // where its content lies
  int64_t bytes = 0;
  std::string oid = {};     // git's SHA-1 of the blob, of the pointer where it lies in LFS
  std::string sha256 = {};  // empty: not in LFS

  const std::string& etag() const { return sha256.empty() ? oid : sha256; }
};

struct ServedRevision {
  std::string commit;  // a hash of its files
  std::vector<ServedFile> files;
};

// ROOT/models/ORG/NAME/@REVISION/... and ROOT/datasets/ORG/NAME/@REVISION/..., also without ORG. In
// REVISION, %2F is a slash. In
// LFS lie weights, Parquet and whatever has more than 1 MiB. Throws std::runtime_error.
class HubRepositories {
 public:
  explicit HubRepositories(const std::string& root);

  // `repository`: "models/org/name". Null: there is none. The revision may be named by its commit.
  using Revisions = std::map<std::string, ServedRevision>;
  const Revisions* Find(const std::string& repository) const;
  const ServedRevision* Find(const std::string& repository, const std::string& revision) const;
  const ServedFile* FindBlob(const std::string& sha256) const;

 private:
  std::map<std::string, Revisions> repositories_;
};

// Whether the Hub keeps a file of this name and size in LFS.
bool IsInLfs(const std::string& path, int64_t bytes);

// git's SHA-1 of `bytes` as a blob, in hexadecimal.
std::string GitBlobHash(const std::string& bytes);

}  // namespace coxswain::support

#endif  // COXSWAIN_TESTS_SUPPORT_HUB_REPOSITORIES_H_
