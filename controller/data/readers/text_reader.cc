#include "controller/data/readers/text_reader.h"

#include "common/status_macros.h"
#include "controller/data/columnar/json_text.h"

namespace coxswain::data {

absl::StatusOr<bool> TextReader::Next(RawRecord* record) {
  ASSIGN_OR_RETURN(const bool any, lines_->Next(record));
  if (!any || !record->error.empty()) return any;
  json_ = "{\"text\": ";
  AppendJsonString(record->json, &json_);
  json_ += '}';
  record->json = json_;
  return true;
}

}  // namespace coxswain::data
