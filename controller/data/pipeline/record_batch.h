// Consecutive records of one dataset: the unit of work of an encode worker.
#ifndef COXSWAIN_CONTROLLER_DATA_PIPELINE_RECORD_BATCH_H_
#define COXSWAIN_CONTROLLER_DATA_PIPELINE_RECORD_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "controller/data/sources/dataset_reader.h"

namespace coxswain::data {

struct RecordBatch {
  struct Item {
    size_t offset = 0;  // in bytes
    size_t size = 0;
    int64_t line = 0;
    std::string_view path;  // path of the record's file; valid as long as the reader
    std::string error;      // why the record cannot be read; empty: it can
  };

  std::string bytes;
  std::vector<Item> items;
  int64_t first_index = 0;     // index of items[0] in the dataset
  int64_t consumed_bytes = 0;  // bytes of the dataset used up to the end of the batch
  absl::Status error;          // error after the last item; no batch follows

  std::string_view json(const Item& item) const {
    return std::string_view(bytes).substr(item.offset, item.size);
  }
};

// Reads records until the batch holds `min_bytes`, the dataset ends or reading fails. False: no
// record was left.
bool ReadBatch(DatasetReader& reader, size_t min_bytes, RecordBatch* batch);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_PIPELINE_RECORD_BATCH_H_
