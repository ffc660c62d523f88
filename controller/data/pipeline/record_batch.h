// Consecutive records of one file: the unit of work of an encode worker.
#ifndef COXSWAIN_CONTROLLER_DATA_PIPELINE_RECORD_BATCH_H_
#define COXSWAIN_CONTROLLER_DATA_PIPELINE_RECORD_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "controller/data/readers/record_reader.h"

namespace coxswain::data {

struct RecordBatch {
  struct Item {
    size_t offset = 0;  // in bytes
    size_t size = 0;
    int64_t line = 0;
    bool too_long = false;
  };

  std::string bytes;
  std::vector<Item> items;
  int64_t first_index = 0;     // of items[0] in the file
  int64_t consumed_bytes = 0;  // of the file, when the batch was complete
  absl::Status error;          // of reading on after the last item; nothing follows such a batch

  std::string_view json(const Item& item) const {
    return std::string_view(bytes).substr(item.offset, item.size);
  }
};

// Reads records until the batch holds `min_bytes`, the file ends or reading fails. False: nothing
// was left to read.
bool ReadBatch(RecordReader& reader, size_t min_bytes, RecordBatch* batch);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_PIPELINE_RECORD_BATCH_H_
