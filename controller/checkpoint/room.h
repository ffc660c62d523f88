// Whether a file system has room for checkpoints that are to come. Runs in a lane.
#ifndef COXSWAIN_CONTROLLER_CHECKPOINT_ROOM_H_
#define COXSWAIN_CONTROLLER_CHECKPOINT_ROOM_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "controller/files.h"

namespace coxswain::checkpoint {

// What a job will write.
struct RoomQuery {
  std::string output_dir;
  int64_t bytes = 0;    // of one checkpoint; 0: not known, nothing is checked
  int64_t at_once = 1;  // that lie there at the same time at most: kept ones, and one being written
  int64_t kept_bytes = 0;  // of those that lie there already
};

// ResourceExhausted unless a checkpoint of `bytes` fits beside what is there; names the directory
// and both numbers. An error of the file system is returned as it is.
absl::Status CheckRoom(Files* files, const std::string& output_dir, int64_t bytes);

// Before a job runs. `warning`: that one fits but not all, or, where the job has checkpoints
// already
// (`kept_bytes`), that none does: then it goes on. Else as CheckRoom.
absl::Status CheckRoomOfJob(Files* files, const RoomQuery& query, std::string* warning);

}  // namespace coxswain::checkpoint

#endif  // COXSWAIN_CONTROLLER_CHECKPOINT_ROOM_H_
