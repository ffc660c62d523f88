#include "controller/data/pipeline/record_batch.h"

namespace coxswain::data {

bool ReadBatch(DatasetReader& reader, size_t min_bytes, RecordBatch* batch) {
  RawRecord record;
  // The count bounds batches of tiny records.
  while (batch->bytes.size() < min_bytes && batch->items.size() < min_bytes / 64) {
    absl::StatusOr<bool> more = reader.Next(&record);
    if (!more.ok()) batch->error = more.status();
    if (!more.ok() || !*more) break;
    batch->items.push_back({batch->bytes.size(), record.json.size(), record.line, record.path,
                            std::string(record.error)});
    batch->bytes.append(record.json);
  }
  batch->consumed_bytes = reader.consumed_bytes();
  return !batch->items.empty() || !batch->error.ok();
}

}  // namespace coxswain::data
