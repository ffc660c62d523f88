#include "controller/text/tokenizer/file/read_sentencepiece.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status_macros.h"
#include "controller/text/tokenizer/file/quoted.h"
#include "controller/text/tokenizer/file/sentencepiece_model.h"
#include "controller/text/tokenizer/steps/sentencepiece_normalizer.h"
#include "controller/text/tokenizer/unicode/utf8.h"

namespace coxswain::data {
namespace {

using Model = SentencePieceModel;
using Type = SentencePieceModel::Type;

absl::Status CheckModel(const Model& model) {
  if (model.kind != Model::Kind::kBpe && model.kind != Model::Kind::kUnigram) {
    return absl::InvalidArgumentError(
        "a SentencePiece model of words or of characters is not supported; supported: BPE, "
        "unigram");
  }
  if (model.space_as_suffix) {
    return absl::InvalidArgumentError(
        "a SentencePiece model with treat_whitespace_as_suffix is not supported");
  }
  return absl::OkStatus();
}

absl::Status AddPieces(const Model& model, TokenizerFile* file) {
  file->byte_ids.fill(-1);
  for (size_t i = 0; i < model.pieces.size(); ++i) {
    const Model::Piece& piece = model.pieces[i];
    const auto id = static_cast<int32_t>(i);
    if (piece.type == Type::kUnused && model.kind == Model::Kind::kBpe) {
      return absl::InvalidArgumentError(
          absl::StrCat("piece ", i, ", ", Quoted(piece.text),
                       ", is of the type UNUSED, which is not supported"));
    }
    if (file->IdOf(piece.text) >= 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("piece ", i, ", ", Quoted(piece.text), ", is there twice"));
    }
    RETURN_IF_ERROR(file->AddToken(piece.text, id));
    if (piece.type == Type::kUnknown) file->unknown_id = id;
    const bool special = piece.type == Type::kUnknown || piece.type == Type::kControl;
    const bool cuts = piece.type == Type::kUserDefined && model.kind == Model::Kind::kBpe;
    if (!special && !cuts) continue;
    AddedToken token;
    token.id = id;
    token.content = piece.text;
    token.special = special;
    token.normalized = cuts;
    file->added.push_back(std::move(token));
  }
  if (model.byte_fallback && file->IdOf("<0xFF>") < 0) {
    return absl::InvalidArgumentError(
        "the model says byte_fallback and has no pieces \"<0x00>\" to \"<0xFF>\"");
  }
  file->model_size = static_cast<int32_t>(model.pieces.size());
  file->fuse_unknown = true;
  for (int byte = 0; model.byte_fallback && byte < 256; ++byte) {
    file->byte_ids[byte] = file->IdOf(absl::StrFormat("<0x%02X>", byte));
  }
  return absl::OkStatus();
}

// SentencePiece joins two neighbours whenever the two together are a piece, by the highest score
// of that piece: a rule for every way to cut a piece in two.
absl::Status AddRules(const Model& model, TokenizerFile* file) {
  std::vector<float> scores;
  for (const Model::Piece& piece : model.pieces) scores.push_back(piece.score);
  std::sort(scores.begin(), scores.end(), std::greater<>());
  scores.erase(std::unique(scores.begin(), scores.end()), scores.end());
  const auto normal = [&](std::string_view text) {
    const int32_t id = file->IdOf(text);
    return id >= 0 && model.pieces[id].type == Type::kNormal ? id : -1;
  };
  for (size_t i = 0; i < model.pieces.size(); ++i) {
    const Model::Piece& piece = model.pieces[i];
    if (piece.type != Type::kNormal) continue;
    const std::string_view text = piece.text;
    const auto rank =
        std::lower_bound(scores.begin(), scores.end(), piece.score, std::greater<>()) -
        scores.begin();
    for (size_t begin = 0, end = 0; begin < text.size(); begin = end) {
      end = begin + CodePointAt(text, begin).size;
      if (normal(text.substr(begin, end - begin)) < 0) {
        return absl::InvalidArgumentError(absl::StrCat(
            "piece ", i, ", ", Quoted(text), ", has a character that is no piece of its own"));
      }
      const int32_t left = normal(text.substr(0, end));
      const int32_t right = end < text.size() ? normal(text.substr(end)) : -1;
      if (left < 0 || right < 0) continue;
      file->rules.push_back({left, right, static_cast<int32_t>(i), static_cast<int32_t>(rank)});
    }
  }
  return absl::OkStatus();
}

// A unigram model takes user-defined pieces by their score.
void AddUnigram(const Model& model, TokenizerFile* file) {
  file->unigram.emplace();
  for (size_t i = 0; i < model.pieces.size(); ++i) {
    const Model::Piece& piece = model.pieces[i];
    const bool user_defined = piece.type == Type::kUserDefined;
    if (piece.type != Type::kNormal && !user_defined) continue;
    file->unigram->push_back({piece.text, static_cast<int32_t>(i), piece.score, user_defined});
  }
}

absl::Status MakePipeline(const Model& model, Pipeline* pipeline) {
  auto normalizer = std::make_unique<SentencePieceNormalizer>();
  if (!model.charsmap.empty()) {
    ASSIGN_OR_RETURN(normalizer->charsmap, Charsmap::Parse(model.charsmap));
  }
  for (const Model::Piece& piece : model.pieces) {
    if (piece.type == Type::kUserDefined) normalizer->kept.push_back(piece.text);
  }
  std::sort(normalizer->kept.begin(), normalizer->kept.end(),
            [](const std::string& a, const std::string& b) { return a.size() > b.size(); });
  normalizer->add_dummy_prefix = model.add_dummy_prefix;
  normalizer->remove_extra_spaces = model.remove_extra_spaces;
  normalizer->escape_spaces = model.escape_spaces;
  pipeline->normalizer.SetSentencePiece(std::move(normalizer));
  ASSIGN_OR_RETURN(std::unique_ptr<SplitRegex> space, SplitRegex::CompileLiteral(kMetaspace));
  Decoder& decoder = pipeline->decoder;
  decoder.Add({Decoder::Kind::kReplace, " ", std::move(space)});
  decoder.Add({Decoder::Kind::kByteFallback});
  decoder.Add({Decoder::Kind::kFuse});
  if (model.add_dummy_prefix) decoder.Add({Decoder::Kind::kStrip, " ", nullptr, 1, 0});
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadSentencePiece(std::string_view bytes, TokenizerFile* file) {
  ASSIGN_OR_RETURN(const Model model, ParseSentencePieceModel(bytes));
  RETURN_IF_ERROR(CheckModel(model));
  RETURN_IF_ERROR(AddPieces(model, file));
  if (model.kind == Model::Kind::kUnigram) {
    AddUnigram(model, file);
  } else {
    RETURN_IF_ERROR(AddRules(model, file));
  }
  return MakePipeline(model, &file->pipeline);
}

}  // namespace coxswain::data
