// OUTPUT_DIR/.staging: where checkpoints and exports are written before they get their names.
#ifndef COXSWAIN_CONTROLLER_CHECKPOINT_STAGING_H_
#define COXSWAIN_CONTROLLER_CHECKPOINT_STAGING_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "controller/files.h"

namespace coxswain::checkpoint {

// The gang, or the export, that writes. A worker is told its path, so that one of an older epoch
// never writes into what a later one commits.
struct StagingOwner {
  std::string job;
  uint64_t term = 0;
  uint64_t epoch = 0;
};

std::string StagingRoot(const std::string& output_dir);
// ".<job>.t<term>.e<epoch>", the ending of every name there.
std::string EndingOf(const StagingOwner& owner);

// What is left of saves, formations and exports that did not end: removed, but for a directory that
// was moved aside and whose place is empty, which goes back. Only for who owns output_dir, while
// nothing of its own is being written there. Names of others stay, and so does a folder that holds
// a file that no job wrote.
absl::Status SweepStaging(Files* files, const std::string& output_dir);

}  // namespace coxswain::checkpoint

#endif  // COXSWAIN_CONTROLLER_CHECKPOINT_STAGING_H_
