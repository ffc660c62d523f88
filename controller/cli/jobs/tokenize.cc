#include "controller/cli/jobs/tokenize.h"

#include <charconv>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "controller/text/tokenizer/tokenizer.h"

namespace coxswain::cli {
namespace {

using data::Tokenizer;

constexpr size_t kBatchBytes = 4 << 20;  // of input held at one time, if lines are shorter

struct Batch {
  std::vector<std::string> lines;
  int64_t first_line = 1;  // number of lines[0] in the file
};

// Reads up to kBatchBytes of whole lines; an empty batch is the end.
void ReadBatch(std::istream& in, Batch* batch) {
  batch->first_line += static_cast<int64_t>(batch->lines.size());
  batch->lines.clear();
  size_t bytes = 0;
  std::string line;
  while (bytes < kBatchBytes && std::getline(in, line)) {
    bytes += line.size() + 1;
    batch->lines.push_back(std::move(line));
  }
}

void AppendIds(std::span<const int32_t> ids, std::string* out) {
  out->push_back('[');
  char digits[16];
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i > 0) out->push_back(',');
    out->append(digits, std::to_chars(digits, digits + sizeof(digits), ids[i]).ptr);
  }
  out->append("]\n");
}

absl::Status BadLine(const TokenizeArgs& args, int64_t line, std::string_view wanted) {
  return absl::InvalidArgumentError(
      absl::StrCat(args.file, ":", line, ": this line is not ", std::string(wanted)));
}

// Replaces each line by the JSON string it holds.
absl::Status UnquoteLines(const TokenizeArgs& args, Batch* batch) {
  for (size_t i = 0; i < batch->lines.size(); ++i) {
    std::string& line = batch->lines[i];
    if (line.empty()) continue;
    const nlohmann::json value = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!value.is_string()) {
      return BadLine(args, batch->first_line + static_cast<int64_t>(i), "a JSON string");
    }
    line = value.get<std::string>();
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> EncodeLines(const TokenizeArgs& args, const Tokenizer& tokenizer,
                                        Batch* batch) {
  if (args.json_lines) RETURN_IF_ERROR(UnquoteLines(args, batch));
  const std::vector<std::string_view> texts(batch->lines.begin(), batch->lines.end());
  ASSIGN_OR_RETURN(const std::vector<std::vector<int32_t>> ids,
                   tokenizer.EncodeBatch(texts, args.threads));
  std::string text;
  for (const std::vector<int32_t>& line : ids) AppendIds(line, &text);
  return text;
}

// The ids of a JSON array line; false when it is anything else.
bool ParseIds(const std::string& line, std::vector<int32_t>* ids) {
  ids->clear();
  if (line.empty()) return true;
  const nlohmann::json value = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!value.is_array()) return false;
  for (const nlohmann::json& id : value) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > INT32_MAX) return false;
    ids->push_back(id.get<int32_t>());
  }
  return true;
}

absl::StatusOr<std::string> DecodeLines(const TokenizeArgs& args, const Tokenizer& tokenizer,
                                        const Batch& batch) {
  std::string text;
  std::vector<int32_t> ids;
  for (size_t i = 0; i < batch.lines.size(); ++i) {
    if (!ParseIds(batch.lines[i], &ids)) {
      return BadLine(args, batch.first_line + static_cast<int64_t>(i), "a JSON array of token ids");
    }
    text += nlohmann::json(tokenizer.Decode(ids, /*skip_special=*/false)).dump();
    text.push_back('\n');
  }
  return text;
}

absl::Status Tokenize(const TokenizeArgs& args, std::ostream& out) {
  if (args.decode && args.json_lines) {
    return absl::InvalidArgumentError("--decode and --json-lines exclude each other");
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer, Tokenizer::Load(args.tokenizer));
  std::ifstream file;
  if (args.file != "-") {
    file.open(args.file, std::ios::binary);
    if (!file) return absl::NotFoundError(absl::StrCat(args.file, ": cannot be opened"));
  }
  std::istream& in = args.file == "-" ? std::cin : file;
  Batch batch;
  for (ReadBatch(in, &batch); !batch.lines.empty(); ReadBatch(in, &batch)) {
    absl::StatusOr<std::string> text =
        args.decode ? DecodeLines(args, *tokenizer, batch) : EncodeLines(args, *tokenizer, &batch);
    RETURN_IF_ERROR(text.status());
    if (!(out << *text)) return absl::DataLossError("output cannot be written");
  }
  if (in.bad()) return absl::DataLossError(absl::StrCat(args.file, ": read failed"));
  if (!out.flush()) return absl::DataLossError("output cannot be written");
  return absl::OkStatus();
}

}  // namespace

int RunTokenize(const TokenizeArgs& args, std::ostream& out, std::ostream& err) {
  const absl::Status status = Tokenize(args, out);
  if (status.ok()) return 0;
  err << "cox: " << status.message() << "\n";
  if (absl::IsNotFound(status)) return 4;
  return absl::IsInvalidArgument(status) ? 2 : 1;
}

}  // namespace coxswain::cli
