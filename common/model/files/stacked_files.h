// How the files of a checkpoint hold the matrices of a stack: one tensor each, several for one
// matrix, or all as one tensor, transposed or with rows interleaved.
#ifndef COXSWAIN_COMMON_MODEL_FILES_STACKED_FILES_H_
#define COXSWAIN_COMMON_MODEL_FILES_STACKED_FILES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/model/block.h"
#include "common/model/parameter.h"

namespace coxswain::model {

// A tensor of the files, or with "*" in its name one of each matrix.
struct StackedFile {
  std::string name;            // whole, of Hugging Face
  int64_t rows = 0, cols = 0;  // of one matrix, as the file has it
  int64_t batch = 1;           // matrices of the stack
  bool vectors = false;        // of `rows` elements, in place of matrices with one column
  std::vector<FileMember> members;

  bool one_each() const { return members.front().one_each(); }
  int64_t matrices() const { return one_each() ? 1 : batch; }  // in one tensor
  std::string NameOf(int64_t matrix) const;
  std::vector<int64_t> shape() const;  // of one tensor
};

// The files of the parameter; none where the files have it as one tensor of its own name.
std::vector<StackedFile> StackedFilesOf(const Architecture& model, const Parameter& parameter);

// The same rows of a file that has [out, in].
StackedFile ByOutputs(StackedFile file);

// Between one matrix of the file [rows, cols] and the rows of one matrix in memory [.., in] that it
// fills, `in` being cols, or rows where the file is transposed.
void ToMemoryMatrix(const StackedFile& file, const float* values, float* matrix);
void ToFileMatrix(const StackedFile& file, const float* matrix, float* values);

// The linears of single experts, and how files of adapters call them.

// "base_model.model.model.layers.0.mlp.experts.3.up_proj.lora_A.weight" of a file that has one
// matrix each; `part` is A or B. Source: peft save_and_load, vLLM lora/utils.py.
inline std::string SingleExpertKey(const StackedFile& file, int64_t expert, Part part) {
  const std::string weight = file.NameOf(expert);
  const std::string module = weight.substr(0, weight.rfind('.'));
  return absl::StrCat("base_model.model.", module,
                      part == Part::kLoraA ? ".lora_A.weight" : ".lora_B.weight");
}

// The tensors in which files of the base have the stack that `adapter`, its A or B, adapts.
inline std::vector<StackedFile> FilesOfAdapted(const Architecture& model, Parameter adapter) {
  adapter.part = Part::kBase;
  return StackedFilesOf(model, adapter);
}

}  // namespace coxswain::model

#endif  // COXSWAIN_COMMON_MODEL_FILES_STACKED_FILES_H_
