// Checks that a file system has room for the coming checkpoints. Runs in a lane.
#ifndef COXSWAIN_CONTROLLER_CHECKPOINT_ROOM_H_
#define COXSWAIN_CONTROLLER_CHECKPOINT_ROOM_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "controller/runtime/files.h"

namespace coxswain::checkpoint {

// The space that a job will need.
struct RoomQuery {
  std::string output_dir;
  int64_t bytes = 0;       // of one checkpoint; 0: not known, so nothing is checked
  int64_t at_once = 1;     // most checkpoints that exist at once: kept ones, and one being written
  int64_t kept_bytes = 0;  // bytes of the job's existing checkpoints
};

// ResourceExhausted unless `bytes` are free for one more checkpoint. It names the directory and
// both numbers. An error of the file system is returned unchanged.
absl::Status CheckRoom(Files* files, const std::string& output_dir, int64_t bytes);

// Call it before a job runs. Sets `warning` when one checkpoint fits but not all at once. Sets it
// too when none fits but the job already has checkpoints (kept_bytes > 0): the job continues.
// Otherwise as CheckRoom.
absl::Status CheckRoomOfJob(Files* files, const RoomQuery& query, std::string* warning);

}  // namespace coxswain::checkpoint

#endif  // COXSWAIN_CONTROLLER_CHECKPOINT_ROOM_H_
