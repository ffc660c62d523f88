#include "controller/data/pipeline/record_batch.h"

#include "common/status_macros.h"

namespace coxswain::data {

absl::StatusOr<bool> ReadBatch(RecordReader& reader, size_t min_bytes, RecordBatch* batch) {
  RawRecord record;
  // The count bounds batches of tiny records.
  while (batch->bytes.size() < min_bytes && batch->items.size() < min_bytes / 64) {
    ASSIGN_OR_RETURN(bool more, reader.Next(&record));
    if (!more) break;
    batch->items.push_back({batch->bytes.size(), record.json.size(), record.line, record.too_long});
    batch->bytes.append(record.json);
  }
  batch->consumed_bytes = reader.consumed_bytes();
  return !batch->items.empty();
}

}  // namespace coxswain::data
