#include "controller/text/tokenizer/file/read_tokenizer_file.h"

#include <simdjson.h>

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/files/hash.h"
#include "common/status_macros.h"
#include "controller/text/tokenizer/file/gzip_file.h"
#include "controller/text/tokenizer/file/read_added_tokens.h"
#include "controller/text/tokenizer/file/read_bpe_model.h"
#include "controller/text/tokenizer/file/read_sentencepiece.h"
#include "controller/text/tokenizer/file/tokenizer_config.h"

namespace coxswain::data {
namespace {

namespace fs = std::filesystem;
using simdjson::dom::element;

absl::StatusOr<std::string> FindTokenizer(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return path;
  for (const char* name : {"tokenizer.json", "tokenizer.json.gz", "tokenizer.model"}) {
    const fs::path candidate = fs::path(path) / name;
    if (fs::exists(candidate, ignored)) return candidate.string();
  }
  for (const char* name : {"tekken.json", "vocab.json", "vocab.txt", "tiktoken.model"}) {
    if (!fs::exists(fs::path(path) / name, ignored)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": there is ", name, ", which is not read, and neither tokenizer.json nor ",
        "tokenizer.model; load it with transformers and save_pretrained, which writes the first"));
  }
  return absl::NotFoundError(absl::StrCat(path, ": no tokenizer.json and no tokenizer.model here"));
}

absl::StatusOr<element> Parse(const std::string& text, simdjson::dom::parser* parser) {
  element document;
  const simdjson::error_code error = parser->parse(text).get(document);
  if (error != simdjson::SUCCESS) {
    return absl::InvalidArgumentError(
        absl::StrCat("not valid JSON (", simdjson::error_message(error), "); the file has ",
                     text.size(), " bytes. Is it truncated, or a Git LFS pointer?"));
  }
  if (!document.is_object())
    return absl::InvalidArgumentError("the top of the file is not a JSON object");
  return document;
}

absl::Status ReadTokenizerJson(const std::string& text, TokenizerFile* file) {
  simdjson::dom::parser parser;
  ASSIGN_OR_RETURN(const element document, Parse(text, &parser));
  element model;
  if (document["model"].get(model) != simdjson::SUCCESS || !model.is_object()) {
    return absl::InvalidArgumentError("no object 'model'; is this a tokenizer.json?");
  }
  ASSIGN_OR_RETURN(file->pipeline, ReadPipeline(document));
  file->byte_level = file->pipeline.pre_tokenizer.byte_level();
  RETURN_IF_ERROR(ReadBpeModel(model, file));
  return ReadAddedTokens(document, file);
}

absl::Status WithPath(const std::string& path, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

}  // namespace

absl::StatusOr<TokenizerFile> ReadTokenizerFile(const std::string& path) {
  TokenizerFile file;
  ASSIGN_OR_RETURN(file.path, FindTokenizer(path));
  ASSIGN_OR_RETURN(const std::string content, ReadMaybeGzip(file.path));
  const bool is_model = fs::path(file.path).extension() != ".json" && content.starts_with('\n');
  RETURN_IF_ERROR(WithPath(
      file.path, is_model ? ReadSentencePiece(content, &file) : ReadTokenizerJson(content, &file)));
  const fs::path directory = fs::path(file.path).parent_path();
  const fs::path config_path = directory / "tokenizer_config.json";
  std::string rest;
  std::error_code ignored;
  if (fs::exists(config_path, ignored)) {
    ASSIGN_OR_RETURN(rest, ReadMaybeGzip(config_path.string(), kMaxConfigBytes));
    RETURN_IF_ERROR(WithPath(config_path.string(), ReadTokenizerConfig(rest, &file)));
  }
  RETURN_IF_ERROR(ReadTemplateFiles(directory.string(), &file, &rest));
  file.fingerprint = ToHex(Sha256(absl::StrCat(content.size(), "\n", content, rest)));
  return file;
}

}  // namespace coxswain::data
