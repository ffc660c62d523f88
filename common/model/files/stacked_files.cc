#include "common/model/files/stacked_files.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace coxswain::model {
namespace {

// Calls use(index in the file, index in memory) for every element.
template <typename Use>
void ForElements(const StackedFile& file, const Use& use) {
  for (const FileMember& member : file.members) {
    const int64_t in = member.transposed ? file.rows : file.cols;
    for (int64_t i = 0; i < member.rows; ++i) {
      const int64_t row = member.first + i * member.step;
      for (int64_t j = 0; j < in; ++j) {
        const int64_t in_file = member.transposed ? j * file.cols + row : row * file.cols + j;
        use(in_file, (member.row + i) * in + j);
      }
    }
  }
}

}  // namespace

std::string StackedFile::NameOf(int64_t matrix) const {
  const size_t star = name.find('*');
  if (star == std::string::npos) return name;
  return absl::StrCat(name.substr(0, star), matrix, name.substr(star + 1));
}

std::vector<int64_t> StackedFile::shape() const {
  std::vector<int64_t> shape = {batch, rows, cols};
  if (vectors) shape.pop_back();
  if (one_each()) shape.erase(shape.begin());
  return shape;
}

std::vector<StackedFile> StackedFilesOf(const Architecture& model, const Parameter& parameter) {
  if (parameter.layer < 0 || IsAdapter(parameter)) return {};
  const TensorSpec& tensor = model.blocks[static_cast<size_t>(parameter.layer)]
                                 .tensors[static_cast<size_t>(parameter.tensor)];
  std::vector<StackedFile> files;
  for (const FileMember& member : tensor.members) {
    const std::string name = absl::StrCat(model.outside.layers, parameter.layer, ".", member.name);
    auto file = std::find_if(files.begin(), files.end(),
                             [&name](const StackedFile& other) { return other.name == name; });
    if (file == files.end()) {
      file = files.insert(files.end(), StackedFile{.name = name, .members = {}});
      file->batch = tensor.batch;
      file->vectors = tensor.kind == Kind::kExpertBias;
    }
    file->members.push_back(member);
    const int64_t rows = member.first + (member.rows - 1) * member.step + 1;
    int64_t& out = member.transposed ? file->cols : file->rows;
    int64_t& in = member.transposed ? file->rows : file->cols;
    out = std::max(out, rows);
    in = tensor.cols;
  }
  return files;
}

StackedFile ByOutputs(StackedFile file) {
  for (FileMember& member : file.members) {
    if (!std::exchange(member.transposed, false)) return file;
  }
  std::swap(file.rows, file.cols);
  return file;
}

void ToMemoryMatrix(const StackedFile& file, const float* values, float* matrix) {
  ForElements(file,
              [&](int64_t in_file, int64_t in_memory) { matrix[in_memory] = values[in_file]; });
}

void ToFileMatrix(const StackedFile& file, const float* matrix, float* values) {
  ForElements(file,
              [&](int64_t in_file, int64_t in_memory) { values[in_file] = matrix[in_memory]; });
}

}  // namespace coxswain::model
