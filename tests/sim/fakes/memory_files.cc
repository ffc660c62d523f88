#include "tests/sim/fakes/memory_files.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "common/files/hash.h"
#include "common/status_macros.h"

namespace coxswain::sim {
namespace {

absl::Status Missing(const std::string& path) {
  return absl::NotFoundError(absl::StrCat("no such file: ", path));
}

}  // namespace

bool Below(const std::string& path, const std::string& directory) {
  return path.starts_with(directory) &&
         (path.size() == directory.size() || path[directory.size()] == '/');
}

absl::Status MemoryFiles::Writable(const std::string& path) const {
  return write_error_.ok() || !Below(path, failing_prefix_) ? absl::OkStatus() : write_error_;
}

void MemoryFiles::FailWrites(std::string prefix, absl::Status error) {
  std::lock_guard lock(mu_);
  failing_prefix_ = std::move(prefix);
  write_error_ = std::move(error);
}

void MemoryFiles::Unmount(const std::string& prefix) {
  std::lock_guard lock(mu_);
  std::erase_if(files_, [&](const auto& entry) {
    return Below(entry.first, prefix) && unmounted_files_.insert(entry).second;
  });
  std::erase_if(directories_, [&](const std::string& entry) {
    return Below(entry, prefix) && unmounted_directories_.insert(entry).second;
  });
}

void MemoryFiles::Mount() {
  std::lock_guard lock(mu_);
  for (const auto& [path, content] : unmounted_files_) files_[path] = content;
  directories_.merge(unmounted_directories_);
  unmounted_files_.clear();
  unmounted_directories_.clear();
}

void MemoryFiles::Link(const std::string& path, const std::string& target) {
  std::lock_guard lock(mu_);
  links_[path] = target;
}

void MemoryFiles::SetAge(const std::string& path, double seconds) {
  std::lock_guard lock(mu_);
  ages_[path] = seconds;
}

void MemoryFiles::LoseLocks() {
  std::lock_guard lock(mu_);
  holders_.clear();
}

// Links are followed from the root on, as often as one leads to another.
std::string MemoryFiles::Resolve(const std::string& path) const {
  std::string resolved = "/";
  size_t begin = 0;
  while (begin < path.size()) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = std::string_view(path).substr(begin, end - begin);
    begin = end + 1;
    if (part.empty() || part == ".") continue;
    if (part == "..") {
      resolved.resize(std::max<size_t>(resolved.rfind('/'), 1));
      continue;
    }
    if (resolved.size() > 1) resolved += '/';
    resolved += part;
    for (auto link = links_.find(resolved); link != links_.end(); link = links_.find(resolved)) {
      resolved = link->second;
    }
  }
  return resolved;
}

absl::Status MemoryFiles::MakeDirs(const std::string& name) {
  std::lock_guard lock(mu_);
  const std::string path = Resolve(name);
  RETURN_IF_ERROR(Writable(path));
  for (size_t slash = path.find('/', 1); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    directories_.insert(path.substr(0, slash));
  }
  directories_.insert(path);
  return absl::OkStatus();
}

absl::Status MemoryFiles::WriteDurably(const std::string& name, const std::string& content) {
  std::lock_guard lock(mu_);
  const std::string path = Resolve(name);
  RETURN_IF_ERROR(Writable(path));
  if (!directories_.contains(path.substr(0, path.rfind('/')))) return Missing(path);
  files_[path] = content;
  stamps_[path] = ++last_stamp_;
  return absl::OkStatus();
}

absl::Status MemoryFiles::WriteAt(const std::string& name, int64_t offset,
                                  const std::string& content, bool ends) {
  std::lock_guard lock(mu_);
  const std::string path = Resolve(name);
  RETURN_IF_ERROR(Writable(path));
  if (!directories_.contains(path.substr(0, path.rfind('/')))) return Missing(path);
  std::string& file = files_[path];
  const auto begin = static_cast<size_t>(offset);
  if (file.size() < begin) return absl::DataLossError(absl::StrCat(path, " is shorter"));
  file.replace(begin, ends ? std::string::npos : content.size(), content);
  stamps_[path] = ++last_stamp_;
  return absl::OkStatus();
}

absl::StatusOr<std::string> MemoryFiles::Read(const std::string& name) {
  std::lock_guard lock(mu_);
  const std::string path = Resolve(name);
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

absl::StatusOr<std::vector<FileEntry>> MemoryFiles::List(const std::string& name_of_directory) {
  std::lock_guard lock(mu_);
  const std::string directory = Resolve(name_of_directory);
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

absl::Status MemoryFiles::CheckBlocks(const std::string& path, const BlockDigests& expected) {
  ASSIGN_OR_RETURN(const std::string content, Read(path));
  if (static_cast<int64_t>(content.size()) != expected.bytes) {
    return absl::DataLossError(
        absl::StrCat(path, ": has ", content.size(), " bytes, its manifest says ", expected.bytes));
  }
  for (int64_t i = 0; i < expected.blocks(); ++i) {
    const std::string block = content.substr(static_cast<size_t>(i * kDigestBlockBytes),
                                             static_cast<size_t>(BlockBytes(expected.bytes, i)));
    RETURN_IF_ERROR(CheckBlock(path, expected, i, block));
  }
  return absl::OkStatus();
}

absl::StatusOr<BlockDigests> MemoryFiles::Digests(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string content, Read(path));
  return DigestsOf(content);
}

absl::StatusOr<PathFacts> MemoryFiles::Look(const std::string& name) {
  std::lock_guard lock(mu_);
  const size_t slash = name.rfind('/');
  const std::string parent = Resolve(name.substr(0, slash));
  const std::string path = absl::StrCat(parent == "/" ? "" : parent, name.substr(slash));
  if (links_.contains(path)) return PathFacts{.kind = PathFacts::Kind::kLink};
  if (directories_.contains(path)) return PathFacts{.kind = PathFacts::Kind::kDirectory};
  const auto file = files_.find(path);
  if (file == files_.end()) return PathFacts{};
  const auto stamp = stamps_.find(path);
  return PathFacts{.kind = PathFacts::Kind::kFile,
                   .bytes = static_cast<int64_t>(file->second.size()),
                   .modified_ns = stamp == stamps_.end() ? 0 : stamp->second};
}

bool MemoryFiles::Exists(const std::string& name) {
  std::lock_guard lock(mu_);
  const std::string path = Resolve(name);
  return files_.contains(path) || directories_.contains(path);
}

absl::StatusOr<int64_t> MemoryFiles::FreeBytes(const std::string&) {
  std::lock_guard lock(mu_);
  return free_bytes_;
}

void MemoryFiles::SetFreeBytes(int64_t bytes) {
  std::lock_guard lock(mu_);
  free_bytes_ = bytes;
}

absl::Status MemoryFiles::RenameDirectory(const std::string& source, const std::string& target) {
  std::lock_guard lock(mu_);
  const std::string from = Resolve(source), to = Resolve(target);
  RETURN_IF_ERROR(Writable(to));
  if (directories_.contains(to)) return absl::AlreadyExistsError(absl::StrCat(to, " exists"));
  if (!directories_.contains(from)) return Missing(from);
  std::map<std::string, std::string> files;
  std::map<std::string, int64_t> stamps;
  for (auto& [path, content] : files_) {
    const std::string moved = Below(path, from) ? to + path.substr(from.size()) : path;
    files[moved] = std::move(content);
    stamps[moved] = stamps_[path];
  }
  std::set<std::string> directories;
  for (const std::string& path : directories_) {
    directories.insert(Below(path, from) ? to + path.substr(from.size()) : path);
  }
  files_ = std::move(files);
  stamps_ = std::move(stamps);
  directories_ = std::move(directories);
  return absl::OkStatus();
}

absl::Status MemoryFiles::RemoveAll(const std::string& name) {
  std::lock_guard lock(mu_);
  const std::string path = Resolve(name);
  std::erase_if(files_, [&](const auto& entry) { return Below(entry.first, path); });
  std::erase_if(directories_, [&](const std::string& entry) { return Below(entry, path); });
  return absl::OkStatus();
}

absl::Status MemoryFiles::RemoveIfEmpty(const std::string& name) {
  std::lock_guard lock(mu_);
  const std::string path = Resolve(name);
  const auto in_it = [&](const std::string& entry) { return entry != path && Below(entry, path); };
  const bool holds_any = std::any_of(directories_.begin(), directories_.end(), in_it) ||
                         std::any_of(files_.begin(), files_.end(),
                                     [&](const auto& file) { return in_it(file.first); });
  if (!holds_any) directories_.erase(path);
  return absl::OkStatus();
}

absl::StatusOr<std::string> MemoryFiles::Identity(const std::string& path) {
  std::lock_guard lock(mu_);
  return Resolve(path);
}

class MemoryFiles::Lock : public HeldFile {
 public:
  Lock(MemoryFiles* files, std::string path, int holder)
      : files_(files), path_(std::move(path)), holder_(holder) {}
  ~Lock() override {
    std::lock_guard lock(files_->mu_);
    if (Holds()) files_->holders_.erase(path_);
  }
  bool exclusive() const override { return true; }
  absl::Status Write(const std::string& content) override {
    return files_->WriteDurably(path_, content);
  }
  absl::Status Touch() override {
    std::lock_guard lock(files_->mu_);
    files_->ages_.erase(path_);
    return files_->Writable(path_);
  }
  bool InPlace() override {
    std::lock_guard lock(files_->mu_);
    return Holds() && files_->files_.contains(path_);
  }
  absl::Status Remove() override {
    std::lock_guard lock(files_->mu_);
    if (Holds()) files_->files_.erase(path_);
    return absl::OkStatus();
  }

 private:
  bool Holds() const {  // mu_ held
    const auto it = files_->holders_.find(path_);
    return it != files_->holders_.end() && it->second == holder_;
  }

  MemoryFiles* const files_;
  const std::string path_;
  const int holder_;
};

absl::StatusOr<std::unique_ptr<HeldFile>> MemoryFiles::Hold(const std::string& name) {
  if (!Exists(name)) RETURN_IF_ERROR(WriteDurably(name, ""));
  std::lock_guard lock(mu_);
  const std::string path = Resolve(name);
  if (holders_.contains(path)) return nullptr;
  holders_[path] = ++last_holder_;
  return std::make_unique<Lock>(this, path, last_holder_);
}

absl::StatusOr<bool> MemoryFiles::IsHeld(const std::string& path) {
  std::lock_guard lock(mu_);
  return holders_.contains(Resolve(path));
}

absl::StatusOr<double> MemoryFiles::AgeSeconds(const std::string& path) {
  std::lock_guard lock(mu_);
  const auto age = ages_.find(Resolve(path));
  return age == ages_.end() ? 0 : age->second;
}

}  // namespace coxswain::sim
