// OUTPUT_DIR/.staging, where checkpoints and exports are written before they are renamed into
// place.
#ifndef COXSWAIN_CONTROLLER_CHECKPOINT_STAGING_H_
#define COXSWAIN_CONTROLLER_CHECKPOINT_STAGING_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "controller/runtime/files.h"

namespace coxswain::checkpoint {

// The gang or the export that writes. A worker gets its path from the controller. So a worker of an
// older epoch never writes into a directory that a later epoch commits.
struct StagingOwner {
  std::string job;
  uint64_t term = 0;
  uint64_t epoch = 0;
};

std::string StagingRoot(const std::string& output_dir);
// ".<job>.t<term>.e<epoch>", the ending of every name there.
std::string EndingOf(const StagingOwner& owner);

// Removes the remains of unfinished saves, formations and exports. A directory that was moved aside
// goes back when its place is empty. Only the owner of output_dir may call it, while it writes
// nothing there. Foreign names stay, and so does a folder with a file that no job wrote.
absl::Status SweepStaging(Files* files, const std::string& output_dir);
// SweepStaging of an owner that goes: .staging goes too where nothing stays in it.
absl::Status LeaveStaging(Files* files, const std::string& output_dir);

}  // namespace coxswain::checkpoint

#endif  // COXSWAIN_CONTROLLER_CHECKPOINT_STAGING_H_
