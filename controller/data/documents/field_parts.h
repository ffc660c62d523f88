// Finds the field of a record from which each part of its rendered texts came.
#ifndef COXSWAIN_CONTROLLER_DATA_DOCUMENTS_FIELD_PARTS_H_
#define COXSWAIN_CONTROLLER_DATA_DOCUMENTS_FIELD_PARTS_H_

#include <string>
#include <string_view>
#include <vector>

#include "controller/data/documents/record_renderer.h"
#include "controller/data/readers/record_parser.h"

namespace coxswain::data {

struct FieldPart {
  std::string field;  // "output", "messages[1].content"; empty: the template's own
  std::string text;
};

struct RecordParts {
  // Parts of each rendered document, complete and in order.
  std::vector<std::vector<FieldPart>> texts;
  std::vector<std::string> unwritten;  // fields whose text appears in no document
};

// Renders the record again with other words in one field at a time. The parts that change came from
// that field. Fields that decide how others are written (a role, the JSON text of tools), and
// fields beyond the first hundred, are not traced. Empty for a bad record and for tokens.
// `renderer` may be null: then records are tokens.
RecordParts PartsOfRecord(std::string_view json, RecordParser* parser,
                          const RecordRenderer& renderer);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_DOCUMENTS_FIELD_PARTS_H_
