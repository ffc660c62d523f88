#include "controller/trackers/file_tail.h"

#include "common/status_macros.h"

namespace coxswain::trackers {

void FileTail::CutTo(int64_t end) {
  if (end >= begin_) {
    pending_.resize(static_cast<size_t>(end - begin_));
    return;
  }
  begin_ = end;
  pending_.clear();
  ends_ = false;
}

absl::Status FileTail::Write(Files* files, bool whole) {
  if (pending_.empty() && (ends_ || !whole)) return absl::OkStatus();
  RETURN_IF_ERROR(files->MakeDirs(path_.substr(0, path_.rfind('/'))));
  RETURN_IF_ERROR(files->WriteAt(path_, begin_, pending_, whole));
  begin_ = end();
  pending_.clear();
  ends_ = whole;
  return absl::OkStatus();
}

}  // namespace coxswain::trackers
