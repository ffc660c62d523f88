// Writes cells of Arrow arrays as JSON text.
#ifndef COXSWAIN_CONTROLLER_DATA_COLUMNAR_JSON_CELL_H_
#define COXSWAIN_CONTROLLER_DATA_COLUMNAR_JSON_CELL_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <arrow/api.h>

namespace coxswain::data::columnar {

// True for the types that AppendCell supports: null, bool, integers, float and double, decimals,
// strings, dates, times and timestamps; dictionaries, lists and maps (with string keys) of these;
// structs with at least one such field. Binary is not supported.
bool HasJson(const arrow::DataType& type);
// Fields within the column ("messages.picture") without a form in JSON, and their types. They are
// left out.
std::vector<std::pair<std::string, std::string>> PartsWithoutJson(const arrow::Field& field);

// Appends cell `row` of an array. HasJson must be true for its type. Dates, times and timestamps
// become ISO 8601 text; those with a time zone are in UTC. Decimals become strings. NaN and
// infinity become null.
void AppendCell(const arrow::Array& array, int64_t row, std::string* out);

}  // namespace coxswain::data::columnar

#endif  // COXSWAIN_CONTROLLER_DATA_COLUMNAR_JSON_CELL_H_
