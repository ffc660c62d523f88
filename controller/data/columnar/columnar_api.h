// What libcoxswain_columnar.so offers to the reader that loads it: plain C, so that neither side
// sees the other's libraries. An exception never crosses it.
#ifndef COXSWAIN_CONTROLLER_DATA_COLUMNAR_COLUMNAR_API_H_
#define COXSWAIN_CONTROLLER_DATA_COLUMNAR_COLUMNAR_API_H_

#include <stddef.h>

extern "C" {

struct ColumnarFile;

enum ColumnarKind { kColumnarParquet = 0, kColumnarArrowFile = 1, kColumnarArrowStream = 2 };

struct ColumnarColumn {
  const char* name;
  int needed;  // 0: left out where its type has no form in JSON
};

struct ColumnarApi {
  // Opens a file; `num_columns` columns to decode, or all that can be when the file has none of
  // them or none is given. Null: `error` (of `capacity` bytes) says why, without the path.
  ColumnarFile* (*open)(const char* path, ColumnarKind kind, const ColumnarColumn* columns,
                        size_t num_columns, char* error, size_t capacity);
  // The name of column `index` of those that are not decoded, in the order of the file, and where
  // the reason is its type, that type, else an empty text. Both live as long as the file; null:
  // there are no more.
  const char* (*left_out)(const ColumnarFile* file, size_t index, const char** type);
  // The next row as the text of a JSON object, valid until the next call. 1: a row; 0: the end; -1:
  // the file is damaged, and last_error says how.
  int (*next)(ColumnarFile* file, const char** json, size_t* size);
  const char* (*last_error)(const ColumnarFile* file);
  // The part of the rows that was given, 0 to 1.
  double (*progress)(const ColumnarFile* file);
  void (*close)(ColumnarFile* file);
};

// The one symbol of the library, and its type. Another interface has another name.
const ColumnarApi* coxswain_columnar_api_2();
using ColumnarApiFunction = const ColumnarApi*();

}  // extern "C"

inline constexpr char kColumnarApiSymbol[] = "coxswain_columnar_api_2";

#endif  // COXSWAIN_CONTROLLER_DATA_COLUMNAR_COLUMNAR_API_H_
