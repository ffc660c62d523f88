#include "tests/sim/fakes/faulty_files.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace coxswain::sim {

absl::Status FaultyFiles::Meet(Fault& fault, const char* what, const std::string& path) {
  if (crash_->dead()) return absl::UnavailableError("the controller is dead");
  if (fault.count == 0) return absl::OkStatus();
  if (fault.skip > 0) {
    --fault.skip;
    return absl::OkStatus();
  }
  --fault.count;
  if (observer_) observer_(absl::StrCat(what, " of ", path, ": ", fault.error.message()));
  return absl::Status(fault.error.code(), absl::StrCat(path, ": ", fault.error.message()));
}

absl::Status FaultyFiles::BeforeWrite(const char* what, const std::string& path) {
  if (!crash_->Pass()) return absl::UnavailableError("the controller is dead");
  return Meet(writes_, what, path);
}

absl::Status FaultyFiles::Changed(absl::Status status, const std::string& path) {
  if (changed_) changed_(path);
  return status;
}

absl::Status FaultyFiles::MakeDirs(const std::string& path) {
  RETURN_IF_ERROR(BeforeWrite("mkdir", path));
  return base_->MakeDirs(path);
}
absl::Status FaultyFiles::WriteDurably(const std::string& path, const std::string& content) {
  RETURN_IF_ERROR(BeforeWrite("write", path));
  return Changed(base_->WriteDurably(path, content), path);
}
absl::Status FaultyFiles::WriteAt(const std::string& path, int64_t offset,
                                  const std::string& content, bool ends) {
  RETURN_IF_ERROR(BeforeWrite("write", path));
  return Changed(base_->WriteAt(path, offset, content, ends), path);
}
absl::StatusOr<std::string> FaultyFiles::Read(const std::string& path) {
  RETURN_IF_ERROR(BeforeRead(path));
  return base_->Read(path);
}
absl::StatusOr<std::string> FaultyFiles::ReadAt(const std::string& path, int64_t offset,
                                                int64_t count) {
  RETURN_IF_ERROR(BeforeRead(path));
  return base_->ReadAt(path, offset, count);
}
absl::StatusOr<std::vector<FileEntry>> FaultyFiles::List(const std::string& directory) {
  RETURN_IF_ERROR(BeforeRead(directory));
  return base_->List(directory);
}
absl::StatusOr<int64_t> FaultyFiles::Size(const std::string& path) {
  RETURN_IF_ERROR(BeforeRead(path));
  return base_->Size(path);
}
absl::StatusOr<std::string> FaultyFiles::Sha256Hex(const std::string& path) {
  RETURN_IF_ERROR(BeforeRead(path));
  return base_->Sha256Hex(path);
}
absl::Status FaultyFiles::CheckBlocks(const std::string& path, const BlockDigests& expected) {
  RETURN_IF_ERROR(BeforeRead(path));
  return base_->CheckBlocks(path, expected);
}
absl::StatusOr<BlockDigests> FaultyFiles::Digests(const std::string& path) {
  RETURN_IF_ERROR(BeforeRead(path));
  return base_->Digests(path);
}
absl::StatusOr<PathFacts> FaultyFiles::Look(const std::string& path) {
  RETURN_IF_ERROR(BeforeRead(path));
  return base_->Look(path);
}
absl::StatusOr<int64_t> FaultyFiles::FreeBytes(const std::string& path) {
  RETURN_IF_ERROR(BeforeRead(path));
  return base_->FreeBytes(path);
}
absl::Status FaultyFiles::RenameDirectory(const std::string& from, const std::string& to) {
  RETURN_IF_ERROR(BeforeWrite("rename", from));
  RETURN_IF_ERROR(base_->RenameDirectory(from, to));
  return Changed(Changed(absl::OkStatus(), from), to);
}
absl::Status FaultyFiles::RemoveAll(const std::string& path) {
  RETURN_IF_ERROR(BeforeWrite("removal", path));
  return Changed(base_->RemoveAll(path), path);
}
absl::Status FaultyFiles::RemoveIfEmpty(const std::string& path) {
  RETURN_IF_ERROR(BeforeWrite("removal", path));
  return Changed(base_->RemoveIfEmpty(path), path);
}
absl::StatusOr<std::string> FaultyFiles::Identity(const std::string& path) {
  RETURN_IF_ERROR(BeforeRead(path));
  return base_->Identity(path);
}

class FaultyFiles::Held : public HeldFile {
 public:
  Held(FaultyFiles* files, std::unique_ptr<HeldFile> base, std::string path)
      : files_(files), base_(std::move(base)), path_(std::move(path)) {}
  bool exclusive() const override { return base_->exclusive(); }
  absl::Status Write(const std::string& content) override {
    RETURN_IF_ERROR(files_->BeforeWrite("write", path_));
    return base_->Write(content);
  }
  absl::Status Touch() override {
    RETURN_IF_ERROR(files_->BeforeWrite("touch", path_));
    return base_->Touch();
  }
  bool InPlace() override { return base_->InPlace(); }
  absl::Status Remove() override {
    RETURN_IF_ERROR(files_->BeforeWrite("removal", path_));
    return base_->Remove();
  }

 private:
  FaultyFiles* const files_;
  const std::unique_ptr<HeldFile> base_;
  const std::string path_;
};

absl::StatusOr<std::unique_ptr<HeldFile>> FaultyFiles::Hold(const std::string& path) {
  RETURN_IF_ERROR(BeforeWrite("lock", path));
  ASSIGN_OR_RETURN(std::unique_ptr<HeldFile> held, base_->Hold(path));
  if (held == nullptr) return nullptr;
  return std::make_unique<Held>(this, std::move(held), path);
}
absl::StatusOr<bool> FaultyFiles::IsHeld(const std::string& path) {
  RETURN_IF_ERROR(BeforeRead(path));
  return base_->IsHeld(path);
}
absl::StatusOr<double> FaultyFiles::AgeSeconds(const std::string& path) {
  RETURN_IF_ERROR(BeforeRead(path));
  return base_->AgeSeconds(path);
}

}  // namespace coxswain::sim
