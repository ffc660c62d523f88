#include "tests/sim/memory_files.h"

#include "absl/strings/str_cat.h"
#include "common/hash.h"
#include "common/status_macros.h"

namespace coxswain::sim {
namespace {

bool Below(const std::string& path, const std::string& directory) {
  return path == directory || path.starts_with(directory + "/");
}

absl::Status Missing(const std::string& path) {
  return absl::NotFoundError(absl::StrCat("no such file: ", path));
}

}  // namespace

absl::Status MemoryFiles::Writable(const std::string& path) const {
  return write_error_.ok() || !Below(path, failing_prefix_) ? absl::OkStatus() : write_error_;
}

void MemoryFiles::FailWrites(std::string prefix, absl::Status error) {
  std::lock_guard lock(mu_);
  failing_prefix_ = std::move(prefix);
  write_error_ = std::move(error);
}

absl::Status MemoryFiles::MakeDirs(const std::string& path) {
  std::lock_guard lock(mu_);
  RETURN_IF_ERROR(Writable(path));
  for (size_t slash = path.find('/', 1); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    directories_.insert(path.substr(0, slash));
  }
  directories_.insert(path);
  return absl::OkStatus();
}

absl::Status MemoryFiles::WriteDurably(const std::string& path, const std::string& content) {
  std::lock_guard lock(mu_);
  RETURN_IF_ERROR(Writable(path));
  if (!directories_.contains(path.substr(0, path.rfind('/')))) return Missing(path);
  files_[path] = content;
  return absl::OkStatus();
}

absl::StatusOr<std::string> MemoryFiles::Read(const std::string& path) {
  std::lock_guard lock(mu_);
  const auto it = files_.find(path);
  if (it == files_.end()) return Missing(path);
  return it->second;
}

absl::StatusOr<std::string> MemoryFiles::ReadAt(const std::string& path, int64_t offset,
                                                int64_t count) {
  ASSIGN_OR_RETURN(const std::string content, Read(path));
  if (offset >= static_cast<int64_t>(content.size())) return std::string();
  return content.substr(static_cast<size_t>(offset), static_cast<size_t>(count));
}

absl::StatusOr<std::vector<FileEntry>> MemoryFiles::List(const std::string& directory) {
  std::lock_guard lock(mu_);
  if (!directories_.contains(directory)) return Missing(directory);
  std::map<std::string, bool> names;
  const std::string prefix = directory + "/";
  for (const auto& [path, content] : files_) {
    if (!path.starts_with(prefix)) continue;
    const std::string rest = path.substr(prefix.size());
    if (rest.find('/') == std::string::npos) names.emplace(rest, false);
  }
  for (const std::string& path : directories_) {
    if (!path.starts_with(prefix)) continue;
    const std::string rest = path.substr(prefix.size());
    if (rest.find('/') == std::string::npos) names.emplace(rest, true);
  }
  std::vector<FileEntry> entries;
  for (const auto& [name, is_directory] : names) entries.push_back({name, is_directory});
  return entries;
}

absl::StatusOr<int64_t> MemoryFiles::Size(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string content, Read(path));
  return static_cast<int64_t>(content.size());
}

absl::StatusOr<std::string> MemoryFiles::Sha256Hex(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string content, Read(path));
  return ToHex(Sha256(content));
}

bool MemoryFiles::Exists(const std::string& path) {
  std::lock_guard lock(mu_);
  return files_.contains(path) || directories_.contains(path);
}

absl::StatusOr<int64_t> MemoryFiles::FreeBytes(const std::string&) { return int64_t{1} << 30; }

absl::Status MemoryFiles::RenameDirectory(const std::string& from, const std::string& to) {
  std::lock_guard lock(mu_);
  RETURN_IF_ERROR(Writable(to));
  if (directories_.contains(to)) return absl::AlreadyExistsError(absl::StrCat(to, " exists"));
  if (!directories_.contains(from)) return Missing(from);
  std::map<std::string, std::string> files;
  for (auto& [path, content] : files_) {
    files[Below(path, from) ? to + path.substr(from.size()) : path] = std::move(content);
  }
  std::set<std::string> directories;
  for (const std::string& path : directories_) {
    directories.insert(Below(path, from) ? to + path.substr(from.size()) : path);
  }
  files_ = std::move(files);
  directories_ = std::move(directories);
  return absl::OkStatus();
}

absl::Status MemoryFiles::RemoveAll(const std::string& path) {
  std::lock_guard lock(mu_);
  std::erase_if(files_, [&](const auto& entry) { return Below(entry.first, path); });
  std::erase_if(directories_, [&](const std::string& entry) { return Below(entry, path); });
  return absl::OkStatus();
}

}  // namespace coxswain::sim
