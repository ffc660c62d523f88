#include "controller/checkpoint/room.h"

#include "absl/strings/str_cat.h"
#include "common/format.h"
#include "common/status_macros.h"

namespace coxswain::checkpoint {
namespace {

std::string Bytes(int64_t bytes) {
  return absl::StrCat(bytes, " bytes (", FormatBytes(static_cast<uint64_t>(bytes)), ")");
}

}  // namespace

absl::Status CheckRoom(Files* files, const std::string& output_dir, int64_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int64_t free, files->FreeBytes(output_dir));
  if (free >= bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "checkpoint.output_dir ", output_dir, ": a checkpoint takes ", Bytes(bytes),
      ", its file system has ", Bytes(free), " left: make room, or give another directory"));
}

absl::Status CheckRoomOfJob(Files* files, const RoomQuery& query, std::string* warning) {
  const absl::Status one = CheckRoom(files, query.output_dir, query.bytes);
  if (absl::IsResourceExhausted(one) && query.kept_bytes > 0) {
    *warning = std::string(one.message());
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(one);
  if (query.bytes == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int64_t free, files->FreeBytes(query.output_dir));
  const int64_t all = query.at_once * query.bytes;
  if (free + query.kept_bytes >= all) return absl::OkStatus();
  *warning = absl::StrCat("checkpoint.output_dir ", query.output_dir, ": up to ", query.at_once,
                          " checkpoints lie there at once and take ", Bytes(all),
                          ", its file system has ", Bytes(free + query.kept_bytes),
                          " for them: make room, or lower checkpoint.save_total_limit");
  return absl::OkStatus();
}

}  // namespace coxswain::checkpoint
