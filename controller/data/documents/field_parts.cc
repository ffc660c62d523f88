#include "controller/data/documents/field_parts.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "controller/text/templates/segment.h"

namespace coxswain::data {
namespace {

using Json = nlohmann::ordered_json;
using Texts = std::vector<std::string>;

// U+FDD2: another noncharacter than those of ContentGuard and Probe.
constexpr std::string_view kMark = "\xEF\xB7\x92";
constexpr size_t kMostFields = 100;

enum class Side { kFront, kBehind };

struct Field {
  std::string name;
  Json::json_pointer place;
};

bool HasText(const Json& value) {
  if (value.is_string()) return !value.get_ref<const std::string&>().empty();
  return value.is_structured() && std::any_of(value.begin(), value.end(), HasText);
}

// What says who speaks and how, and not what is said.
bool IsOfForm(std::string_view key) {
  return key == "role" || key == "from" || key == "type" || key == "id" || key == "tool_call_id";
}

void AddFieldsOf(const Json& object, const std::string& name, const Json::json_pointer& place,
                 std::vector<Field>* fields) {
  for (const auto& [key, value] : object.items()) {
    if (!name.empty() && IsOfForm(key)) continue;
    const std::string of_key = name.empty() ? key : absl::StrCat(name, ".", key);
    const bool messages =
        name.empty() && value.is_array() && !value.empty() &&
        std::all_of(value.begin(), value.end(), [](const Json& item) { return item.is_object(); });
    if (messages) {
      for (size_t i = 0; i < value.size(); ++i) {
        AddFieldsOf(value[i], absl::StrCat(of_key, "[", i, "]"), place / key / i, fields);
      }
    } else if (HasText(value) && fields->size() < kMostFields) {
      fields->push_back({of_key, place / key});
    }
  }
}

void MarkTexts(Side side, Json* value) {
  if (value->is_string()) {
    auto& text = value->get_ref<std::string&>();
    if (!text.empty()) text.insert(side == Side::kFront ? 0 : text.size(), kMark);
  } else if (value->is_structured()) {
    for (auto item = value->begin(); item != value->end(); ++item) {
      const bool of_form = value->is_object() && IsOfForm(item.key());
      if (!of_form) MarkTexts(side, &*item);
    }
  }
}

Texts TextsOf(const std::vector<RenderedDocument>& documents) {
  Texts texts;
  for (const RenderedDocument& document : documents) {
    std::string& text = texts.emplace_back();
    bool markup = false;
    for (const Segment& segment : document.segments) {
      if (segment.once && markup && text.ends_with(segment.text)) continue;
      text += segment.text;
      markup = segment.markup;
    }
  }
  return texts;
}

// One record, which can be rendered with marks in a field.
class MarkedRecord {
 public:
  MarkedRecord(RecordParser* parser, const RecordRenderer& renderer)
      : parser_(parser), renderer_(renderer) {}

  absl::StatusOr<Texts> Render(std::string_view json) const {
    ASSIGN_OR_RETURN(const Record record, parser_->Parse(json));
    ASSIGN_OR_RETURN(const std::vector<RenderedDocument> documents, renderer_(record));
    return TextsOf(documents);
  }
  absl::StatusOr<Texts> Render(Json record, const Json::json_pointer& place, Side side) const {
    MarkTexts(side, &record[place]);
    return Render(record.dump(-1, ' ', false, Json::error_handler_t::replace));
  }

 private:
  RecordParser* const parser_;
  const RecordRenderer& renderer_;
};

// Bytes of `text` that came from a field: from the first mark in front of its texts to the last one
// behind them. Nothing: the marks change more than themselves, or are not written.
std::optional<ByteRange> RangeOf(std::string_view text, std::string_view front,
                                 std::string_view behind) {
  const size_t begin = front.find(kMark), end = behind.rfind(kMark);
  if (begin == std::string_view::npos || end == std::string_view::npos) return std::nullopt;
  const std::string_view rest = behind.substr(end + kMark.size());
  const bool same = text.starts_with(front.substr(0, begin)) && text.ends_with(rest) &&
                    begin + rest.size() < text.size();
  if (!same) return std::nullopt;
  return ByteRange{begin, text.size() - rest.size()};
}

struct NamedRange {
  std::string field;
  ByteRange bytes;
};

std::vector<FieldPart> Cut(std::string_view text, std::vector<NamedRange> ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const NamedRange& a, const NamedRange& b) { return a.bytes.begin < b.bytes.begin; });
  std::vector<FieldPart> parts;
  size_t at = 0;
  const auto add = [&](std::string field, size_t end) {
    if (at < end) parts.push_back({std::move(field), std::string(text.substr(at, end - at))});
    at = std::max(at, end);
  };
  for (NamedRange& range : ranges) {
    add("", range.bytes.begin);
    add(std::move(range.field), range.bytes.end);
  }
  add("", text.size());
  return parts;
}

}  // namespace

RecordParts PartsOfRecord(std::string_view json, RecordParser* parser,
                          const RecordRenderer& renderer) {
  RecordParts parts;
  const Json record = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (renderer == nullptr || !record.is_object()) return parts;
  const MarkedRecord marked(parser, renderer);
  const absl::StatusOr<Texts> texts = marked.Render(json);
  if (!texts.ok()) return parts;
  std::vector<Field> fields;
  AddFieldsOf(record, "", Json::json_pointer(), &fields);
  std::vector<std::vector<NamedRange>> ranges(texts->size());
  for (const Field& field : fields) {
    const auto front = marked.Render(record, field.place, Side::kFront);
    const auto behind = marked.Render(record, field.place, Side::kBehind);
    if (!front.ok() || !behind.ok() || front->size() != texts->size() ||
        behind->size() != texts->size()) {
      continue;
    }
    if (*front == *texts && *behind == *texts) parts.unwritten.push_back(field.name);
    for (size_t i = 0; i < texts->size(); ++i) {
      const auto range = RangeOf((*texts)[i], (*front)[i], (*behind)[i]);
      if (range) ranges[i].push_back({field.name, *range});
    }
  }
  for (size_t i = 0; i < texts->size(); ++i) {
    parts.texts.push_back(Cut((*texts)[i], std::move(ranges[i])));
  }
  return parts;
}

}  // namespace coxswain::data
