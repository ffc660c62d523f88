#include "controller/data/columnar/json_cell.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>
#include <utility>

#include <arrow/util/formatting.h>

#include "controller/data/columnar/json_text.h"

namespace coxswain::data::columnar {
namespace {

using arrow::Type;
using arrow::internal::checked_cast;

template <typename T>
void AppendNumber(T value, std::string* out) {
  if constexpr (std::is_floating_point_v<T>) {
    if (!std::isfinite(value)) {
      out->append("null");
      return;
    }
  }
  char text[32];
  const std::to_chars_result end = std::to_chars(text, text + sizeof text, value);
  out->append(text, end.ptr);
}

template <typename ArrayType>
void AppendNumberCell(const arrow::Array& array, int64_t row, std::string* out) {
  AppendNumber(checked_cast<const ArrayType&>(array).Value(row), out);
}

template <typename ArrayType>
void AppendTextCell(const arrow::Array& array, int64_t row, std::string* out) {
  AppendJsonString(checked_cast<const ArrayType&>(array).GetView(row), out);
}

// Arrow writes a space between date and time, and the Z of those with a time zone.
template <typename ArrayType>
void AppendTimeCell(const arrow::Array& array, int64_t row, std::string* out) {
  using ArrowType = typename ArrayType::TypeClass;
  const auto& type = checked_cast<const ArrowType&>(*array.type());
  std::string text;
  arrow::internal::StringFormatter<ArrowType> format(&type);
  format(checked_cast<const ArrayType&>(array).Value(row),
         [&](std::string_view written) { text = std::string(written); });
  if constexpr (std::is_same_v<ArrowType, arrow::TimestampType>) {
    const size_t space = text.find(' ');
    if (space != std::string::npos) text[space] = 'T';
  }
  AppendJsonString(text, out);
}

void AppendRange(const arrow::Array& values, int64_t begin, int64_t end, std::string* out) {
  out->push_back('[');
  for (int64_t i = begin; i < end; ++i) {
    if (i > begin) out->append(", ");
    AppendCell(values, i, out);
  }
  out->push_back(']');
}

template <typename ListArray>
void AppendListCell(const arrow::Array& array, int64_t row, std::string* out) {
  const auto& list = checked_cast<const ListArray&>(array);
  const int64_t begin = list.value_offset(row);
  AppendRange(*list.values(), begin, begin + list.value_length(row), out);
}

void AppendStructCell(const arrow::Array& array, int64_t row, std::string* out) {
  const auto& fields = checked_cast<const arrow::StructArray&>(array);
  out->push_back('{');
  bool first = true;
  for (int i = 0; i < fields.num_fields(); ++i) {
    if (!HasJson(*array.type()->field(i)->type())) continue;
    if (!std::exchange(first, false)) out->append(", ");
    AppendJsonString(array.type()->field(i)->name(), out);
    out->append(": ");
    AppendCell(*fields.field(i), row, out);
  }
  out->push_back('}');
}

void AppendMapCell(const arrow::Array& array, int64_t row, std::string* out) {
  const auto& map = checked_cast<const arrow::MapArray&>(array);
  const int64_t begin = map.value_offset(row);
  out->push_back('{');
  for (int64_t i = begin; i < begin + map.value_length(row); ++i) {
    if (i > begin) out->append(", ");
    AppendCell(*map.keys(), i, out);
    out->append(": ");
    AppendCell(*map.items(), i, out);
  }
  out->push_back('}');
}

void AppendDictionaryCell(const arrow::Array& array, int64_t row, std::string* out) {
  const auto& coded = checked_cast<const arrow::DictionaryArray&>(array);
  AppendCell(*coded.dictionary(), coded.GetValueIndex(row), out);
}

using Append = void (*)(const arrow::Array&, int64_t, std::string*);

// Null: the type is not known.
Append AppendOf(Type::type type) {
  switch (type) {
    case Type::NA:
      return [](const arrow::Array&, int64_t, std::string* out) { out->append("null"); };
    case Type::BOOL:
      return [](const arrow::Array& array, int64_t row, std::string* out) {
        out->append(checked_cast<const arrow::BooleanArray&>(array).Value(row) ? "true" : "false");
      };
    case Type::INT8:
      return AppendNumberCell<arrow::Int8Array>;
    case Type::UINT8:
      return AppendNumberCell<arrow::UInt8Array>;
    case Type::INT16:
      return AppendNumberCell<arrow::Int16Array>;
    case Type::UINT16:
      return AppendNumberCell<arrow::UInt16Array>;
    case Type::INT32:
      return AppendNumberCell<arrow::Int32Array>;
    case Type::UINT32:
      return AppendNumberCell<arrow::UInt32Array>;
    case Type::INT64:
      return AppendNumberCell<arrow::Int64Array>;
    case Type::UINT64:
      return AppendNumberCell<arrow::UInt64Array>;
    case Type::FLOAT:
      return AppendNumberCell<arrow::FloatArray>;
    case Type::DOUBLE:
      return AppendNumberCell<arrow::DoubleArray>;
    case Type::STRING:
      return AppendTextCell<arrow::StringArray>;
    case Type::LARGE_STRING:
      return AppendTextCell<arrow::LargeStringArray>;
    case Type::STRING_VIEW:
      return AppendTextCell<arrow::StringViewArray>;
    case Type::DECIMAL128:
      return [](const arrow::Array& array, int64_t row, std::string* out) {
        AppendJsonString(checked_cast<const arrow::Decimal128Array&>(array).FormatValue(row), out);
      };
    case Type::DATE32:
      return AppendTimeCell<arrow::Date32Array>;
    case Type::DATE64:
      return AppendTimeCell<arrow::Date64Array>;
    case Type::TIME32:
      return AppendTimeCell<arrow::Time32Array>;
    case Type::TIME64:
      return AppendTimeCell<arrow::Time64Array>;
    case Type::TIMESTAMP:
      return AppendTimeCell<arrow::TimestampArray>;
    case Type::LIST:
      return AppendListCell<arrow::ListArray>;
    case Type::LARGE_LIST:
      return AppendListCell<arrow::LargeListArray>;
    case Type::FIXED_SIZE_LIST:
      return AppendListCell<arrow::FixedSizeListArray>;
    case Type::STRUCT:
      return AppendStructCell;
    case Type::MAP:
      return AppendMapCell;
    case Type::DICTIONARY:
      return AppendDictionaryCell;
    default:
      return nullptr;
  }
}

bool IsText(const arrow::DataType& type) {
  return type.id() == Type::STRING || type.id() == Type::LARGE_STRING;
}

}  // namespace

bool HasJson(const arrow::DataType& type) {
  const auto& fields = type.fields();
  const auto has = [](const std::shared_ptr<arrow::Field>& field) {
    return HasJson(*field->type());
  };
  if (AppendOf(type.id()) == nullptr) return false;
  if (type.id() == Type::STRUCT) {
    return fields.empty() || std::any_of(fields.begin(), fields.end(), has);
  }
  if (type.id() == Type::DICTIONARY) {
    return HasJson(*checked_cast<const arrow::DictionaryType&>(type).value_type());
  }
  if (type.id() == Type::MAP) {
    const auto& map = checked_cast<const arrow::MapType&>(type);
    return IsText(*map.key_type()) && HasJson(*map.item_type());
  }
  return std::all_of(fields.begin(), fields.end(), has);
}

std::vector<std::pair<std::string, std::string>> PartsWithoutJson(const arrow::Field& field) {
  std::vector<std::pair<std::string, std::string>> parts;
  const bool named = field.type()->id() == Type::STRUCT;  // a list calls its items "item"
  for (const std::shared_ptr<arrow::Field>& part : field.type()->fields()) {
    const std::string name = named ? field.name() + "." + part->name() : field.name();
    if (!HasJson(*part->type())) {
      parts.emplace_back(name, part->type()->ToString());
      continue;
    }
    for (auto& [inner, type] : PartsWithoutJson(*part->WithName(name))) {
      parts.emplace_back(std::move(inner), std::move(type));
    }
  }
  return parts;
}

void AppendCell(const arrow::Array& array, int64_t row, std::string* out) {
  if (array.IsNull(row)) {
    out->append("null");
    return;
  }
  AppendOf(array.type_id())(array, row, out);
}

}  // namespace coxswain::data::columnar
