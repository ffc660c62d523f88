#include "worker/engine/memory/weights.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/files/safetensors/safetensors.h"
#include "common/files/weights/blocks_and_scales.h"
#include "common/files/weights/packed_matrix.h"
#include "common/files/weights/weight_files.h"
#include "common/model/family.h"
#include "common/model/files/file_rows.h"
#include "common/model/saved_modules.h"
#include "common/plan/storage.h"
#include "common/status_macros.h"
#include "kernels/optimizer/dynamic_map.h"
#include "kernels/quantize/nf4.h"
#include "worker/engine/commands/work_count.h"
#include "worker/engine/memory/expert_adapters.h"
#include "worker/engine/memory/random_init.h"
#include "worker/engine/memory/stacked_weights.h"

namespace coxswain::engine {
namespace {

// The mean of rows [0, rows) of `tensor`, [rows, cols].
absl::StatusOr<std::vector<float>> MeanRow(const TensorInfo& tensor, int64_t rows, int64_t cols) {
  constexpr int64_t kRowsAtOnce = 1024;
  std::vector<double> sum(static_cast<size_t>(cols));
  std::vector<float> block(static_cast<size_t>(kRowsAtOnce * cols));
  for (int64_t begin = 0; begin < rows; begin += kRowsAtOnce) {
    const int64_t count = std::min(kRowsAtOnce, rows - begin);
    RETURN_IF_ERROR(CopyRangeAsFloat(tensor, begin * cols, count * cols, block.data()));
    for (int64_t i = 0; i < count * cols; ++i) {
      sum[static_cast<size_t>(i % cols)] += block[static_cast<size_t>(i)];
    }
  }
  std::vector<float> mean;
  for (const double total : sum) {
    mean.push_back(static_cast<float>(total / static_cast<double>(rows)));
  }
  return mean;
}

bool GrowsWithTokens(const plan::Plan& plan, const model::Parameter& parameter) {
  return plan.model.added_tokens.count > 0 &&
         (model::IsEmbedding(parameter) || (model::IsHead(parameter) && plan.model.labels == 0));
}

// Of a tensor of the base with the base's rows: elements `range` of the parameter that has those of
// added tokens too.
absl::Status ReadGrown(const plan::Plan& plan, const model::Parameter& parameter,
                       const TensorInfo& tensor, plan::Range range, float* out) {
  const model::AddedTokens& added = plan.model.added_tokens;
  const int64_t cols = parameter.cols;
  const int64_t there = std::clamp(added.base_rows * cols, range.begin, range.end) - range.begin;
  RETURN_IF_ERROR(CopyRangeAsFloat(tensor, range.begin, there, out));
  ASSIGN_OR_RETURN(const std::vector<float> mean, MeanRow(tensor, added.known, cols));
  const int64_t begin = std::max(range.begin, added.known * cols);
  const int64_t end = std::min(range.end, (added.known + added.count) * cols);
  for (int64_t i = begin; i < end; ++i) out[i - range.begin] = mean[static_cast<size_t>(i % cols)];
  return absl::OkStatus();
}

// The shape of a parameter in the files of the base, or of an adapter.
std::vector<int64_t> SourceShape(const plan::Plan& plan, const model::Parameter& parameter,
                                 bool of_base) {
  std::vector<int64_t> shape = FileShape(parameter);
  if (of_base && GrowsWithTokens(plan, parameter)) {
    shape.front() = plan.model.added_tokens.base_rows;
  }
  if (model::IsTransposedInFiles(parameter)) std::swap(shape[0], shape[1]);
  if (model::IsRankMajorInFiles(parameter)) {
    return {parameter.rows / parameter.batch, parameter.cols * parameter.batch};
  }
  return shape;
}

PackedTensor ViewOf(const PackedMatrix& matrix) {
  return {.codes = matrix.codes,
          .scales = matrix.scales,
          .constants = matrix.constants.empty() ? nullptr : matrix.constants.data()};
}

template <size_t N>
bool SameMap(const std::vector<float>& map, const float (&values)[N]) {
  return std::equal(map.begin(), map.end(), std::begin(values), std::end(values));
}

// A matrix of the base that its files hold quantised, as the plan keeps it.
absl::Status LoadPacked(const plan::Plan& plan, size_t i, const PackedMatrix& matrix,
                        const ParameterStore& store) {
  const model::Parameter& parameter = plan.parameters[i];
  const std::vector<int64_t> wanted = FileShape(parameter);
  const auto refuse = [&](const auto&... what) {
    return absl::InvalidArgumentError(
        absl::StrCat(plan.model_path, ": tensor \"", parameter.name, "\" ", what...));
  };
  if (!store.IsQuantized(i) || matrix.format != plan.quantization) {
    return refuse(
        "is quantised as ", ToString(matrix.format), ", the job keeps it as ",
        store.IsQuantized(i) ? ToString(plan.quantization) : ToString(plan.compute_dtype));
  }
  if (matrix.shape != wanted) {
    return refuse("has shape ", ShapeText(matrix.shape), ", the model needs ", ShapeText(wanted));
  }
  if (!model::FileRows(plan.architecture, parameter).empty()) {
    return refuse("is quantised, and its rows are not in the order of the model");
  }
  const bool nf4 = matrix.format != Quantization::kInt8;
  if (nf4 && !(SameMap(matrix.map, kernels::kNf4Map.values) &&
               (matrix.scale_map.empty() ||
                SameMap(matrix.scale_map, kernels::kSignedDynamicMap.values)))) {
    return refuse("has codes of other values than those of nf4");
  }
  store.UploadPacked(i, ViewOf(matrix));
  CountWork();
  return absl::OkStatus();
}

constexpr int64_t kPieceElements = int64_t{16} << 20;

// CopyRangeAsFloat in pieces: a large tensor of slow storage gets on, too.
absl::Status CopyPieces(const TensorInfo& tensor, const plan::Range& range, float* out) {
  for (int64_t begin = range.begin; begin < range.end; begin += kPieceElements) {
    const int64_t count = std::min(kPieceElements, range.end - begin);
    RETURN_IF_ERROR(CopyRangeAsFloat(tensor, begin, count, out + (begin - range.begin)));
    CountWork();
  }
  return absl::OkStatus();
}

// Elements `range` of a matrix in blocks, a piece of whole rows after the other.
absl::Status CopyPieces(const BlocksAndScales& blocks, const plan::Range& range, float* out) {
  const int64_t cols = blocks.cols, rows = std::max<int64_t>(1, kPieceElements / cols);
  std::vector<float> values;
  for (int64_t row = range.begin / cols; row * cols < range.end; row += rows) {
    const int64_t end = std::min(row + rows, (range.end + cols - 1) / cols);
    values.resize(static_cast<size_t>((end - row) * cols));
    RETURN_IF_ERROR(CopyRowsAsFloat(blocks, {0, row, end}, values.data()));
    const plan::Range part{std::max(range.begin, row * cols), std::min(range.end, end * cols)};
    std::copy_n(values.data() + (part.begin - row * cols), part.count(),
                out + (part.begin - range.begin));
    CountWork();
  }
  return absl::OkStatus();
}

// Elements `range` of a tensor, or of a matrix of the base that its files have in blocks.
absl::Status CopyValues(const TensorInfo& tensor, const WeightFiles* base, const std::string& name,
                        const plan::Range& range, float* out) {
  if (base == nullptr) return CopyPieces(tensor, range, out);
  ASSIGN_OR_RETURN(const std::optional<BlocksAndScales> blocks, FindBlocksAndScales(*base, name));
  return blocks.has_value() ? CopyPieces(*blocks, range, out) : CopyPieces(tensor, range, out);
}

// Checks `tensor` (null: absent) of `source` and uploads what this rank loads of parameter i.
// `base`: the files of the base, where it is one of its tensors.
absl::Status Load(const plan::Plan& plan, size_t i, const TensorInfo* tensor,
                  const std::string& source, const ParameterStore& store,
                  const WeightFiles* base = nullptr) {
  const model::Parameter& parameter = plan.parameters[i];
  const bool of_base = base != nullptr;
  const std::vector<int64_t> wanted = SourceShape(plan, parameter, of_base);
  if (tensor == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(source, ": tensor \"", parameter.name,
                                                   "\" is missing; wanted ", ShapeText(wanted)));
  }
  if (tensor->shape != wanted) {
    return absl::InvalidArgumentError(absl::StrCat(source, ": tensor \"", parameter.name,
                                                   "\" has shape ", ShapeText(tensor->shape),
                                                   ", the model needs ", ShapeText(wanted)));
  }
  const plan::Range range = store.Loaded(i);
  const std::vector<model::RowRange> rows = model::FileRows(plan.architecture, parameter);
  const bool transposed = model::IsTransposedInFiles(parameter);
  const bool rank_major = model::IsRankMajorInFiles(parameter);
  // What is in another order is read whole.
  const plan::Range read =
      rows.empty() && !transposed && !rank_major ? range : plan::Range{0, parameter.elements()};
  std::vector<float> staging(static_cast<size_t>(read.count()));
  const absl::Status status = of_base && GrowsWithTokens(plan, parameter)
                                  ? ReadGrown(plan, parameter, *tensor, read, staging.data())
                                  : CopyValues(*tensor, base, parameter.name, read, staging.data());
  if (!status.ok()) {
    return absl::Status(status.code(), absl::StrCat(source, ": ", std::string(status.message())));
  }
  model::ToMemoryOrder(rows, parameter.cols, &staging);
  if (transposed) model::Transpose(parameter.cols, parameter.rows, &staging);
  if (rank_major) model::FromRankMajor(plan.architecture, parameter, &staging);
  store.Upload(i, staging.data() + (range.begin - read.begin));
  CountWork();
  return absl::OkStatus();
}

bool StaysMxfp4(const plan::Plan& plan, size_t i) {
  return plan::StorageOf(plan, plan.parameters[i]).weights == plan::Storage::kMxfp4;
}

PackedTensor ViewOf(const PackedStack& stack) {
  return {.codes = stack.codes.data(), .scales = stack.scales.data()};
}

// The matrices of experts. What is quantised is so as a whole.
absl::Status LoadStack(const plan::Plan& plan, size_t i,
                       const std::vector<model::StackedFile>& stack, const WeightFiles& files,
                       const ParameterStore& store, std::set<std::string>* known) {
  const plan::Range range = store.Loaded(i);
  if (!store.IsQuantized(i)) {
    return ReadStack(
        plan, i, stack, files, range, known,
        [&](plan::Range part, const float* values) { store.UploadPart(i, part, values); });
  }
  if (StaysMxfp4(plan, i)) {
    ASSIGN_OR_RETURN(const std::optional<PackedStack> packed,
                     ReadPackedStack(plan, i, stack, files, known));
    if (packed.has_value()) {
      store.UploadPacked(i, ViewOf(*packed));
      return absl::OkStatus();
    }
  }
  std::vector<float> staging(static_cast<size_t>(range.count()));
  RETURN_IF_ERROR(
      ReadStack(plan, i, stack, files, range, known, [&](plan::Range part, const float* values) {
        std::copy_n(values, part.count(), staging.begin() + (part.begin - range.begin));
      }));
  store.Upload(i, staging.data());
  return absl::OkStatus();
}

// What of the base an adapter file may hold, and this job does not train.
absl::Status CheckSavedModules(const plan::Plan& plan, const SafetensorsFile& file) {
  for (const model::Parameter& parameter : plan.parameters) {
    if (parameter.trainable()) continue;
    for (const std::string& key : model::AdapterFileKeys(plan.model, parameter)) {
      if (file.Find(key) == nullptr) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(file.path(), ": \"", key,
                       "\" was trained in full, which this job does not; "
                       "name its module in lora.modules_to_save"));
    }
  }
  return absl::OkStatus();
}

// A module trained in full beside the adapter begins as in its file or, where that has none, as in
// the base.
absl::Status LoadSavedModule(const plan::Plan& plan, size_t i, const SafetensorsFile& file,
                             const ParameterStore& store, std::set<std::string>* known) {
  const std::vector<std::string> keys = model::AdapterFileKeys(plan.model, plan.parameters[i]);
  const TensorInfo* first = file.Find(keys.front());
  for (const std::string& key : keys) {
    const TensorInfo* tensor = file.Find(key);
    known->insert(key);
    const bool equal =
        (tensor == nullptr) == (first == nullptr) &&
        (tensor == nullptr ||
         (tensor->dtype == first->dtype && tensor->bytes == first->bytes &&
          std::memcmp(tensor->data, first->data, static_cast<size_t>(first->bytes)) == 0));
    if (equal) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        file.path(), ": \"", keys.front(), "\" and \"", key,
        "\" are one matrix in this model and not in the file; untied embeddings cannot be trained "
        "on: merge the adapter into its base first"));
  }
  return first == nullptr ? absl::OkStatus() : Load(plan, i, first, file.path(), store);
}

// The same, whole, where sweeps read it. LoadBaseWeights has found and checked it.
absl::Status LoadWholeStack(const plan::Plan& plan, size_t i,
                            const std::vector<model::StackedFile>& stack, const WeightFiles& files,
                            const ParameterStore& store) {
  std::set<std::string> known;
  if (StaysMxfp4(plan, i)) {
    ASSIGN_OR_RETURN(const std::optional<PackedStack> packed,
                     ReadPackedStack(plan, i, stack, files, &known));
    if (packed.has_value()) {
      store.UploadPackedWhole(i, ViewOf(*packed));
      return absl::OkStatus();
    }
  }
  std::vector<float> staging(static_cast<size_t>(plan.parameters[i].elements()));
  RETURN_IF_ERROR(ReadStack(plan, i, stack, files, {0, plan.parameters[i].elements()}, &known,
                            [&staging](plan::Range part, const float* values) {
                              std::copy_n(values, part.count(), staging.begin() + part.begin);
                            }));
  store.UploadWhole(i, staging.data());
  return absl::OkStatus();
}

absl::Status CheckNothingLeft(const std::vector<const TensorInfo*>& tensors,
                              const std::set<std::string>& known, const model::TextPart& text,
                              const std::string& source) {
  for (const TensorInfo* tensor : tensors) {
    if (known.count(WeightFiles::Renamed(tensor->name, text.spellings)) != 0) continue;
    if (absl::EndsWith(tensor->name, "rotary_emb.inv_freq")) continue;
    return absl::InvalidArgumentError(absl::StrCat(source, ": the model has no place for tensor \"",
                                                   tensor->name, "\" of shape ",
                                                   ShapeText(tensor->shape)));
  }
  return absl::OkStatus();
}

absl::Status LoadPretrained(const plan::Plan& plan, const ParameterStore& store) {
  const model::TextPart& text = model::TextPartOf(plan.model);
  ASSIGN_OR_RETURN(const std::unique_ptr<WeightFiles> files,
                   WeightFiles::Open(plan.model_path, text.spellings));
  std::set<std::string> known;
  if (plan.model.tie_embeddings) known.insert(plan.architecture.outside.head.name);
  for (size_t i = 0; i < plan.parameters.size(); ++i) {
    const model::Parameter& parameter = plan.parameters[i];
    if (model::IsAdapter(parameter)) continue;
    if (model::IsHead(parameter) && plan.model.new_head) {
      store.Fill(i, RandomInit(plan.seed, parameter, plan.model));
      CountWork();
      continue;
    }
    const std::vector<model::StackedFile> stack =
        model::StackedFilesOf(plan.architecture, parameter);
    if (!stack.empty()) {
      RETURN_IF_ERROR(LoadStack(plan, i, stack, *files, store, &known));
      continue;
    }
    ASSIGN_OR_RETURN(const std::optional<PackedMatrix> packed,
                     FindPackedMatrix(*files, parameter.name));
    if (packed.has_value()) {
      known.insert(packed->tensors.begin(), packed->tensors.end());
      RETURN_IF_ERROR(LoadPacked(plan, i, *packed, store));
      ReleasePages(*files->Find(parameter.name));
      continue;
    }
    known.insert({parameter.name, parameter.name + kScalesOfFp8});
    const TensorInfo* tensor = files->Find(parameter.name);
    RETURN_IF_ERROR(Load(plan, i, tensor, plan.model_path, store, files.get()));
    ReleasePages(*tensor);
  }
  RETURN_IF_ERROR(files->Intact());
  for (const TensorInfo* tensor : files->tensors()) {
    const bool other = model::IsOtherHead(plan.model, tensor->name);
    if (!other && !model::IsBeside(plan.model, tensor->name)) continue;
    known.insert(WeightFiles::Renamed(tensor->name, text.spellings));
  }
  return CheckNothingLeft(files->tensors(), known, text, plan.model_path);
}

absl::Status LoadAdapterFile(const plan::Plan& plan, const ParameterStore& store) {
  const std::string path = absl::StrCat(plan.lora.init_from, "/adapter_model.safetensors");
  ASSIGN_OR_RETURN(const std::unique_ptr<SafetensorsFile> file, SafetensorsFile::Open(path));
  if (plan.trains()) RETURN_IF_ERROR(CheckSavedModules(plan, *file));
  std::set<std::string> known;
  for (size_t i = 0; i < plan.parameters.size(); ++i) {
    const model::Parameter& parameter = plan.parameters[i];
    if (!model::IsAdapter(parameter)) {
      if (plan.trains() && !parameter.trainable()) continue;
      RETURN_IF_ERROR(LoadSavedModule(plan, i, *file, store, &known));
      continue;
    }
    if (LiesByExpert(plan, parameter, *file)) {
      ASSIGN_OR_RETURN(const std::vector<float> values,
                       ReadByExpert(plan, parameter, *file, &known));
      store.Upload(i, values.data() + store.Loaded(i).begin);
      CountWork();
      continue;
    }
    known.insert(parameter.name);
    RETURN_IF_ERROR(Load(plan, i, file->Find(parameter.name), path, store));
  }
  RETURN_IF_ERROR(file->Intact());
  std::vector<const TensorInfo*> tensors;
  for (const TensorInfo& tensor : file->tensors()) tensors.push_back(&tensor);
  return CheckNothingLeft(tensors, known, /*text=*/{}, path);
}

}  // namespace

std::vector<int64_t> FileShape(const model::Parameter& parameter) {
  const bool matrix = model::IsAdapter(parameter) && !model::IsMagnitude(parameter);
  if (parameter.cols == 1 && !matrix) return {parameter.rows};
  return {parameter.rows, parameter.cols};
}

absl::Status LoadBaseWeights(const plan::Plan& plan, const ParameterStore& store) {
  if (plan.init == BaseInit::kPretrained) return LoadPretrained(plan, store);
  for (size_t i = 0; i < plan.parameters.size(); ++i) {
    const model::Parameter& parameter = plan.parameters[i];
    if (model::IsAdapter(parameter)) continue;
    store.Fill(i, RandomInit(plan.init_seed, parameter, plan.model));
    CountWork();
  }
  return absl::OkStatus();
}

absl::Status LoadWholeBlock(const plan::Plan& plan, int32_t layer, const ParameterStore& store) {
  std::unique_ptr<WeightFiles> files;
  if (plan.init == BaseInit::kPretrained) {
    const model::TextPart& text = model::TextPartOf(plan.model);
    ASSIGN_OR_RETURN(files, WeightFiles::Open(plan.model_path, text.spellings));
  }
  for (size_t i = 0; i < plan.parameters.size(); ++i) {
    const model::Parameter& parameter = plan.parameters[i];
    if (parameter.layer != layer || model::IsAdapter(parameter)) continue;
    if (files == nullptr) {
      store.FillWhole(i, RandomInit(plan.init_seed, parameter, plan.model));
      continue;
    }
    const std::vector<model::StackedFile> stack =
        model::StackedFilesOf(plan.architecture, parameter);
    if (!stack.empty()) {
      RETURN_IF_ERROR(LoadWholeStack(plan, i, stack, *files, store));
      continue;
    }
    ASSIGN_OR_RETURN(const std::optional<PackedMatrix> packed,
                     FindPackedMatrix(*files, parameter.name));
    if (packed.has_value()) {
      store.UploadPackedWhole(i, ViewOf(*packed));
      continue;
    }
    std::vector<float> staging(static_cast<size_t>(parameter.elements()));
    // LoadBaseWeights has found and checked it.
    RETURN_IF_ERROR(CopyValues(*files->Find(parameter.name), files.get(), parameter.name,
                               {0, parameter.elements()}, staging.data()));
    model::ToMemoryOrder(model::FileRows(plan.architecture, parameter), parameter.cols, &staging);
    store.UploadWhole(i, staging.data());
  }
  return files == nullptr ? absl::OkStatus() : files->Intact();
}

absl::Status LoadAdapter(const plan::Plan& plan, const ParameterStore& store) {
  if (plan.lora.rank == 0) return absl::OkStatus();
  if (!plan.lora.init_from.empty()) return LoadAdapterFile(plan, store);
  for (size_t i = 0; i < plan.parameters.size(); ++i) {
    const model::Parameter& parameter = plan.parameters[i];
    if (!model::IsAdapter(parameter) || model::IsMagnitude(parameter)) continue;
    store.Fill(i, RandomInit(plan.seed, parameter, plan.model));
  }
  return absl::OkStatus();
}

}  // namespace coxswain::engine
