// Folders of an output directory that a job writes whole, and that it or a later job replaces or
// deletes: exports and checkpoints. The manifest in each says which job wrote it, and its files.
#ifndef COXSWAIN_CONTROLLER_FOLDERS_FOLDER_FINDING_H_
#define COXSWAIN_CONTROLLER_FOLDERS_FOLDER_FINDING_H_

#include <string>
#include <utility>

namespace coxswain {

struct WrittenFolder {
  enum class Kind { kCheckpoint, kAdapter, kModel };
  Kind kind = Kind::kCheckpoint;
  std::string output_dir;
  std::string path;  // its place in output_dir, or where it was moved

  WrittenFolder At(std::string where) const { return {kind, output_dir, std::move(where)}; }
  std::string ManifestPath() const;
};

WrittenFolder AdapterFolder(const std::string& output_dir);
WrittenFolder ModelFolder(const std::string& output_dir);
// `name`: checkpoint-N.
WrittenFolder CheckpointFolder(const std::string& output_dir, const std::string& name);

struct Finding {
  enum class State {
    kFree,     // nothing, or an empty directory
    kOurs,     // nobody changed it since a job wrote it; files of it may be gone
    kAdopted,  // of a release that left no manifest: every file is one that jobs write
    kChanged,  // a job's, and a file has other bytes than it had
    kForeign,  // holds what no job wrote, or is no directory
  };
  State state = State::kFree;
  std::string job = {};   // that wrote it; empty where no manifest says
  std::string what = {};  // kChanged, kForeign: the path and what is wrong with it

  bool may_go() const { return state != State::kChanged && state != State::kForeign; }
};

}  // namespace coxswain

#endif  // COXSWAIN_CONTROLLER_FOLDERS_FOLDER_FINDING_H_
