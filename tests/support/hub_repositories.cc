#include "tests/support/hub_repositories.h"

#include <openssl/sha.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <stdexcept>

#include "common/files/hash.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::support {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostPlainBytes = 1 << 20;

std::string Sha1Hex(const std::string& bytes) {
  std::string digest(SHA_DIGEST_LENGTH, '\0');
  SHA1(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
       reinterpret_cast<unsigned char*>(digest.data()));
  return ToHex(digest);
}

ServedFile Serve(const fs::path& folder, const fs::path& path) {
  ServedFile file{.path = path.lexically_relative(folder).generic_string(),
                  .on_disk = path.string(),
                  .bytes = static_cast<int64_t>(fs::file_size(path))};
  if (!IsInLfs(file.path, file.bytes)) {
    file.oid = GitBlobHash(ReadFile(file.on_disk));
    return file;
  }
  file.sha256 = Sha256HexOfFile(file.on_disk).value();
  file.oid = GitBlobHash("version https://git-lfs.github.com/spec/v1\noid sha256:" + file.sha256 +
                         "\nsize " + std::to_string(file.bytes) + "\n");
  return file;
}

ServedRevision ServeRevision(const fs::path& folder) {
  ServedRevision revision;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) revision.files.push_back(Serve(folder, entry.path()));
  }
  std::sort(revision.files.begin(), revision.files.end(),
            [](const ServedFile& a, const ServedFile& b) { return a.path < b.path; });
  std::string all;
  for (const ServedFile& file : revision.files) all += file.path + " " + file.oid + "\n";
  revision.commit = Sha1Hex(all);
  return revision;
}

// "@refs%2Fpr%2F1" is refs/pr/1.
std::string RevisionOf(const std::string& folder) {
  std::string revision = folder.substr(1);
  for (size_t at; (at = revision.find("%2F")) != std::string::npos;) revision.replace(at, 3, "/");
  return revision;
}

}  // namespace

bool IsInLfs(const std::string& path, int64_t bytes) {
  static const auto* const extensions =
      new std::set<std::string>{".safetensors", ".bin", ".parquet", ".gguf", ".onnx", ".h5"};
  if (bytes == 0) return false;
  return bytes > kMostPlainBytes || extensions->count(fs::path(path).extension().string()) > 0;
}

std::string GitBlobHash(const std::string& bytes) {
  return Sha1Hex("blob " + std::to_string(bytes.size()) + std::string(1, '\0') + bytes);
}

HubRepositories::HubRepositories(const std::string& root) {
  for (auto entry = fs::recursive_directory_iterator(root);
       entry != fs::recursive_directory_iterator(); ++entry) {
    const std::string name = entry->path().filename().string();
    if (name == ".lfs") entry.disable_recursion_pending();  // contents that no commit has yet
    if (!entry->is_directory() || name[0] != '@') continue;
    const fs::path repository = entry->path().parent_path().lexically_relative(root);
    repositories_[repository.generic_string()][RevisionOf(name)] = ServeRevision(entry->path());
    entry.disable_recursion_pending();
  }
}

const HubRepositories::Revisions* HubRepositories::Find(const std::string& repository) const {
  const auto found = repositories_.find(repository);
  return found == repositories_.end() ? nullptr : &found->second;
}

const ServedRevision* HubRepositories::Find(const std::string& repository,
                                            const std::string& revision) const {
  const Revisions* revisions = Find(repository);
  if (revisions == nullptr) return nullptr;
  for (const auto& [name, served] : *revisions) {
    if (name == revision || served.commit == revision) return &served;
  }
  return nullptr;
}

const ServedFile* HubRepositories::FindBlob(const std::string& sha256) const {
  for (const auto& [name, revisions] : repositories_) {
    for (const auto& [revision, served] : revisions) {
      for (const ServedFile& file : served.files) {
        if (file.sha256 == sha256) return &file;
      }
    }
  }
  return nullptr;
}

}  // namespace coxswain::support
