// The interface of libcoxswain_columnar.so to the reader that loads it. It is plain C, so that
// neither side sees the other's libraries. No exception crosses it.
#ifndef COXSWAIN_CONTROLLER_DATA_COLUMNAR_COLUMNAR_API_H_
#define COXSWAIN_CONTROLLER_DATA_COLUMNAR_COLUMNAR_API_H_

#include <stddef.h>

extern "C" {

struct ColumnarFile;

enum ColumnarKind { kColumnarParquet = 0, kColumnarArrowFile = 1, kColumnarArrowStream = 2 };

struct ColumnarColumn {
  const char* name;
  int needed;  // 0: left out if its type has no form in JSON
};

struct ColumnarApi {
  // Opens a file and decodes the `num_columns` given columns. If none is given or the file has none
  // of them, it decodes every column that it can. Null: `error` (of `capacity` bytes) gives the
  // reason, without the path.
  ColumnarFile* (*open)(const char* path, ColumnarKind kind, const ColumnarColumn* columns,
                        size_t num_columns, char* error, size_t capacity);
  // The name of the `index`-th column that is not decoded, in the order of the file; null: there
  // are no more. `type` is the column's type if that is the reason, else an empty text. Both texts
  // live as long as the file.
  const char* (*left_out)(const ColumnarFile* file, size_t index, const char** type);
  // Gives the next row as the text of a JSON object, valid until the next call. Returns 1: a row;
  // 0: the end; -1: the file is damaged, see last_error.
  int (*next)(ColumnarFile* file, const char** json, size_t* size);
  const char* (*last_error)(const ColumnarFile* file);
  // The part of the rows that `next` has given, 0 to 1.
  double (*progress)(const ColumnarFile* file);
  void (*close)(ColumnarFile* file);
};

// The only symbol of the library, and its type. A changed interface gets another name.
const ColumnarApi* coxswain_columnar_api_2();
using ColumnarApiFunction = const ColumnarApi*();

}  // extern "C"

inline constexpr char kColumnarApiSymbol[] = "coxswain_columnar_api_2";

#endif  // COXSWAIN_CONTROLLER_DATA_COLUMNAR_COLUMNAR_API_H_
