// Where the rows of a tensor in memory lie in its Hugging Face file.
#ifndef COXSWAIN_COMMON_MODEL_FILES_FILE_ROWS_H_
#define COXSWAIN_COMMON_MODEL_FILES_FILE_ROWS_H_

#include <cstdint>
#include <vector>

#include "common/model/block.h"
#include "common/model/parameter.h"

namespace coxswain::model {

// The ranges of the file, one after another as memory has them; empty: memory is as the file. An
// adapter's B and magnitudes follow the rows of their linear.
std::vector<RowRange> FileRows(const Architecture& model, const Parameter& parameter);

// Reorder the rows of `values` [rows, cols], which the ranges cover. Nothing without ranges.
void ToMemoryOrder(const std::vector<RowRange>& ranges, int64_t cols, std::vector<float>* values);
void ToFileOrder(const std::vector<RowRange>& ranges, int64_t cols, std::vector<float>* values);

// Between B of experts in memory, `values` [experts, out, rank], and in PEFT's files
// (IsRankMajorInFiles), whose rows of a stack are in the order of its own tensor in the files.
void ToRankMajor(const Architecture& model, const Parameter& b, std::vector<float>* values);
void FromRankMajor(const Architecture& model, const Parameter& b, std::vector<float>* values);

// [rows, cols] becomes [cols, rows]: for what IsTransposedInFiles.
void Transpose(int64_t rows, int64_t cols, std::vector<float>* values);

}  // namespace coxswain::model

#endif  // COXSWAIN_COMMON_MODEL_FILES_FILE_ROWS_H_
