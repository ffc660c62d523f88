// Bytes of the file of an offline run of Weights & Biases, which `wandb sync` uploads.
#ifndef COXSWAIN_CONTROLLER_TRACKERS_RUN_FILE_H_
#define COXSWAIN_CONTROLLER_TRACKERS_RUN_FILE_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "controller/trackers/point.h"

namespace coxswain::trackers {

// The first bytes of every file.
std::string RunFileIdent();
// `data` as it stands at byte `offset` of the file: the log format of LevelDB, with zlib's CRC-32
// in place of CRC-32C.
// Source: "leveldb Log format", in the documents of google/leveldb; DataStore of wandb.
std::string LogRecord(int64_t offset, std::string_view data);

// The records of a run, in order. A copy is a place to which the run can be taken back.
class RunRecords {
 public:
  // `config_json`: an object, the run's configuration. Each call returns the bytes that stand at
  // `offset`.
  std::string Begin(const Run& run, const std::string& config_json, int64_t offset);
  std::string Add(const Point& point, int64_t offset);
  // The last value of each name, and how the run ended.
  std::string End(const Run& run, bool succeeded, int64_t unix_ms,
                  const std::map<std::string_view, double>& last, int64_t offset);

 private:
  int64_t records_ = 0;
  int64_t points_ = 0;
  int64_t began_unix_ms_ = 0;
};

}  // namespace coxswain::trackers

#endif  // COXSWAIN_CONTROLLER_TRACKERS_RUN_FILE_H_
