// JSON text of the cells of Arrow arrays.
#ifndef COXSWAIN_CONTROLLER_DATA_COLUMNAR_JSON_CELL_H_
#define COXSWAIN_CONTROLLER_DATA_COLUMNAR_JSON_CELL_H_

#include <cstdint>
#include <string>

#include <arrow/api.h>

namespace coxswain::data::columnar {

// Whether AppendCell knows the type: null, bool, integers, float and double, decimals, strings,
// dates, times and timestamps, and dictionaries, lists, structs and maps (with keys of strings) of
// these. Invalid names `column` and the type; binary is among those it does not know.
arrow::Status CheckType(const std::string& column, const arrow::DataType& type);

// Appends cell `row` of an array whose type was checked. Dates, times and timestamps become ISO
// 8601 text, those with a time zone in UTC; decimals become strings; what is no finite number is
// null.
void AppendCell(const arrow::Array& array, int64_t row, std::string* out);

}  // namespace coxswain::data::columnar

#endif  // COXSWAIN_CONTROLLER_DATA_COLUMNAR_JSON_CELL_H_
