#include "common/checkpoint/checkpoint_tensors.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"

namespace coxswain {
namespace {

int64_t Product(const std::vector<int64_t>& shape) {
  int64_t product = 1;
  for (const int64_t extent : shape) product *= extent;
  return product;
}

// "pieces" of a shard's metadata; an empty object where all its tensors are whole.
absl::StatusOr<nlohmann::json> ReadPieces(const SafetensorsFile& shard) {
  const auto text = shard.metadata().find("coxswain");
  if (text == shard.metadata().end()) return nlohmann::json::object();
  const nlohmann::json json = nlohmann::json::parse(text->second, nullptr, false);
  const auto bad = [&shard](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat(shard.path(), ": metadata \"coxswain\" ", what));
  };
  if (!json.is_object()) return bad("is not a JSON object");
  const auto pieces = json.find("pieces");
  if (pieces == json.end()) return nlohmann::json::object();
  if (!pieces->is_object()) return bad("has pieces that are not an object");
  for (const auto& [name, piece] : pieces->items()) {
    const bool begins = piece.is_object() && piece.contains("begin") &&
                        piece["begin"].is_number_unsigned() && piece.contains("shape") &&
                        piece["shape"].is_array();
    if (!begins || !std::all_of(piece["shape"].begin(), piece["shape"].end(),
                                [](const auto& extent) { return extent.is_number_unsigned(); })) {
      return bad(absl::StrCat("does not say where the piece of \"", name, "\" lies"));
    }
  }
  return *pieces;
}

}  // namespace

int64_t PiecedTensor::elements() const { return Product(shape); }

absl::Status CopyRangeAsFloat(const PiecedTensor& tensor, int64_t begin, int64_t count,
                              float* out) {
  if (begin < 0 || count < 0 || begin > tensor.elements() - count) {
    return absl::InvalidArgumentError(absl::StrCat("tensor \"", tensor.name, "\" has ",
                                                   tensor.elements(), " elements, asked for [",
                                                   begin, ", ", begin + count, ")"));
  }
  for (const PiecedTensor::Piece& piece : tensor.pieces) {
    const int64_t first = std::max(begin, piece.begin);
    const int64_t end = std::min(begin + count, piece.begin + piece.values->elements());
    if (first >= end) continue;
    RETURN_IF_ERROR(
        CopyRangeAsFloat(*piece.values, first - piece.begin, end - first, out + (first - begin)));
  }
  return absl::OkStatus();
}

absl::Status CopyAsFloat(const PiecedTensor& tensor, float* out) {
  return CopyRangeAsFloat(tensor, 0, tensor.elements(), out);
}

void CopyRangeBytes(const PiecedTensor& tensor, int64_t begin, int64_t count, uint8_t* out) {
  const int64_t bytes = ElementBits(tensor.dtype) / 8;
  for (const PiecedTensor::Piece& piece : tensor.pieces) {
    const int64_t first = std::max(begin, piece.begin);
    const int64_t end = std::min(begin + count, piece.begin + piece.values->elements());
    if (first >= end) continue;
    CopyRangeBytes(*piece.values, first - piece.begin, end - first, out + (first - begin) * bytes);
  }
}

void CopyBytes(const PiecedTensor& tensor, uint8_t* out) {
  CopyRangeBytes(tensor, 0, tensor.elements(), out);
}

absl::Status CheckpointTensors::Add(const SafetensorsFile& shard) {
  ASSIGN_OR_RETURN(const nlohmann::json pieces, ReadPieces(shard));
  for (const TensorInfo& values : shard.tensors()) {
    PiecedTensor one(values);
    if (const auto piece = pieces.find(values.name); piece != pieces.end()) {
      one.pieces.front().begin = (*piece)["begin"].get<int64_t>();
      one.shape = (*piece)["shape"].get<std::vector<int64_t>>();
    }
    const auto [found, added] = tensors_.emplace(values.name, one);
    if (added) continue;
    PiecedTensor& tensor = found->second;
    if (tensor.shape != one.shape || tensor.dtype != one.dtype) {
      return absl::InvalidArgumentError(
          absl::StrCat(shard.path(), ": the piece of \"", values.name, "\" is of ",
                       std::string(ElementName(one.dtype)), " and a tensor of ", one.elements(),
                       " elements, another shard has ", std::string(ElementName(tensor.dtype)),
                       " and ", tensor.elements()));
    }
    tensor.pieces.push_back(one.pieces.front());
  }
  return absl::OkStatus();
}

absl::Status CheckpointTensors::CheckCover() const {
  for (const auto& [name, tensor] : tensors_) {
    int64_t end = 0;
    for (const PiecedTensor::Piece& piece : tensor.pieces) {
      if (piece.begin != end) break;
      end += piece.values->elements();
    }
    const PiecedTensor::Piece& last = tensor.pieces.back();
    if (end == tensor.elements() && last.begin + last.values->elements() == end) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("checkpoint ", directory_, ": tensor \"", name, "\" of ", tensor.elements(),
                     " elements is in ", tensor.pieces.size(),
                     " pieces that miss or repeat some at element ", end));
  }
  return absl::OkStatus();
}

absl::StatusOr<CheckpointTensors> CheckpointTensors::Open(const std::string& directory) {
  std::set<std::string> paths;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with("rank-") && name.ends_with(".safetensors")) {
      paths.insert(entry->path().string());
    }
  }
  if (paths.empty()) {
    return absl::NotFoundError(
        absl::StrCat("checkpoint ", directory, " has no rank-*.safetensors: it was removed or is ",
                     "not a checkpoint", error ? absl::StrCat(" (", error.message(), ")") : ""));
  }
  CheckpointTensors tensors;
  tensors.directory_ = directory;
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(std::unique_ptr<SafetensorsFile> shard, SafetensorsFile::Open(path));
    RETURN_IF_ERROR(tensors.Add(*shard));
    tensors.shards_.push_back(std::move(shard));
  }
  for (auto& [name, tensor] : tensors.tensors_) {
    std::sort(tensor.pieces.begin(), tensor.pieces.end(),
              [](const auto& a, const auto& b) { return a.begin < b.begin; });
  }
  RETURN_IF_ERROR(tensors.CheckCover());
  return tensors;
}

const PiecedTensor* CheckpointTensors::Find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

absl::Status CheckpointTensors::Intact() const {
  for (const std::unique_ptr<SafetensorsFile>& shard : shards_) RETURN_IF_ERROR(shard->Intact());
  return absl::OkStatus();
}

}  // namespace coxswain
