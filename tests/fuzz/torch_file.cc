// A file of torch.save where the first byte is even, else the data.pkl of one.
#include "common/files/torch/torch_file.h"

#include <string>
#include <vector>

#include "common/files/torch/torch_pickle.h"
#include "tests/fuzz/fuzz_target.h"

namespace coxswain {
namespace {

void ReadAll(const TensorInfo& tensor, std::string_view file) {
  const auto* begin = reinterpret_cast<const uint8_t*>(file.data());
  fuzz::Expect(tensor.data >= begin && tensor.data <= begin + file.size(), "a tensor in the file");
  fuzz::Expect(tensor.bytes >= 0 && tensor.bytes <= static_cast<int64_t>(file.size()),
               "a tensor has no more bytes than the file");
  std::vector<uint8_t> bytes(static_cast<size_t>(tensor.bytes));
  CopyRangeBytes(tensor, 0, tensor.elements(), bytes.data());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text = fuzz::TextOf(data + 1, size - 1);
  if (data[0] % 2 == 0) {
    const auto tensors = ReadTorchTensors(text);
    fuzz::Expect(tensors.ok() || !tensors.status().message().empty(), "a refusal says why");
    if (!tensors.ok()) return 0;
    for (const TensorInfo& tensor : *tensors) ReadAll(tensor, text);
    return 0;
  }
  const auto views = ReadTorchPickle(text);
  if (!views.ok()) {
    fuzz::Expect(!views.status().message().empty(), "a refusal says why");
    return 0;
  }
  for (const NamedView& view : *views) {
    fuzz::Expect(view.view.shape.size() == view.view.strides.size(), "a stride for each extent");
  }
  return 0;
}

}  // namespace coxswain
