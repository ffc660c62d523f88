#include "controller/text/tokenizer/file/sentencepiece_model.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <bit>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/text/tokenizer/unicode/utf8.h"

namespace coxswain::data {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

// A field as the wire has it; the member of its wire type is set.
struct WireField {
  int number = 0;
  uint64_t integer = 0;
  uint32_t fixed = 0;
  std::string bytes;
};

bool ReadField(CodedInputStream* in, uint32_t tag, WireField* field) {
  *field = {};
  field->number = WireFormatLite::GetTagFieldNumber(tag);
  switch (WireFormatLite::GetTagWireType(tag)) {
    case WireFormatLite::WIRETYPE_VARINT:
      return in->ReadVarint64(&field->integer);
    case WireFormatLite::WIRETYPE_FIXED32:
      return in->ReadLittleEndian32(&field->fixed);
    case WireFormatLite::WIRETYPE_LENGTH_DELIMITED: {
      uint32_t size = 0;
      return in->ReadVarint32(&size) && in->ReadString(&field->bytes, static_cast<int>(size));
    }
    default:
      return WireFormatLite::SkipField(in, tag);
  }
}

// Calls on_field(field) for every field of `message`; false: it is damaged.
template <typename Sink>
bool ForEachField(std::string_view message, Sink&& on_field) {
  CodedInputStream in(reinterpret_cast<const uint8_t*>(message.data()),
                      static_cast<int>(message.size()));
  WireField field;
  for (uint32_t tag = in.ReadTag(); tag != 0; tag = in.ReadTag()) {
    if (!ReadField(&in, tag, &field) || !on_field(field)) return false;
  }
  return in.ConsumedEntireMessage();
}

bool ParsePiece(std::string_view message, SentencePieceModel::Piece* piece) {
  const bool whole = ForEachField(message, [&](const WireField& field) {
    if (field.number == 1) piece->text = field.bytes;
    if (field.number == 2) piece->score = std::bit_cast<float>(field.fixed);
    if (field.number == 3) piece->type = static_cast<SentencePieceModel::Type>(field.integer);
    return true;
  });
  return whole && !piece->text.empty() && IsValidUtf8(piece->text);
}

bool ParseTrainer(std::string_view message, SentencePieceModel* model) {
  return ForEachField(message, [&](const WireField& field) {
    if (field.number == 3) model->kind = static_cast<SentencePieceModel::Kind>(field.integer);
    if (field.number == 24) model->space_as_suffix = field.integer != 0;
    if (field.number == 35) model->byte_fallback = field.integer != 0;
    return true;
  });
}

bool ParseNormalizer(std::string_view message, SentencePieceModel* model) {
  return ForEachField(message, [&](const WireField& field) {
    if (field.number == 2) model->charsmap = field.bytes;
    if (field.number == 3) model->add_dummy_prefix = field.integer != 0;
    if (field.number == 4) model->remove_extra_spaces = field.integer != 0;
    if (field.number == 5) model->escape_spaces = field.integer != 0;
    return true;
  });
}

}  // namespace

absl::StatusOr<SentencePieceModel> ParseSentencePieceModel(std::string_view bytes) {
  SentencePieceModel model;
  const bool whole = ForEachField(bytes, [&](const WireField& field) {
    if (field.number == 2) return ParseTrainer(field.bytes, &model);
    if (field.number == 3) return ParseNormalizer(field.bytes, &model);
    if (field.number != 1) return true;
    model.pieces.emplace_back();
    return ParsePiece(field.bytes, &model.pieces.back());
  });
  if (whole && !model.pieces.empty()) return model;
  return absl::InvalidArgumentError(absl::StrCat(
      "not a SentencePiece model, or a damaged one, after piece ", model.pieces.size(),
      "; the file has ", bytes.size(), " bytes. Is it truncated, or a Git LFS pointer?"));
}

}  // namespace coxswain::data
