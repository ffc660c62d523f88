// JSON text of the cells of Arrow arrays.
#ifndef COXSWAIN_CONTROLLER_DATA_COLUMNAR_JSON_CELL_H_
#define COXSWAIN_CONTROLLER_DATA_COLUMNAR_JSON_CELL_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <arrow/api.h>

namespace coxswain::data::columnar {

// Whether AppendCell knows the type: null, bool, integers, float and double, decimals, strings,
// dates, times and timestamps, and dictionaries, lists and maps (with keys of strings) of these,
// and structs with a field of them. Binary is among those it does not know.
bool HasJson(const arrow::DataType& type);
// Fields within the column ("messages.picture") that have none, and their types: they are left out.
std::vector<std::pair<std::string, std::string>> PartsWithoutJson(const arrow::Field& field);

// Appends cell `row` of an array whose type HasJson. Dates, times and timestamps become ISO
// 8601 text, those with a time zone in UTC; decimals become strings; what is no finite number is
// null.
void AppendCell(const arrow::Array& array, int64_t row, std::string* out);

}  // namespace coxswain::data::columnar

#endif  // COXSWAIN_CONTROLLER_DATA_COLUMNAR_JSON_CELL_H_
