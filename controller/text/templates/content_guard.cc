#include "controller/text/templates/content_guard.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "controller/text/jinja/values/containers.h"

namespace coxswain::data {
namespace {

using jinja::Kind;
using jinja::Value;

// U+FDD0, one of the noncharacters that no text is made of.
constexpr std::string_view kNoncharacter = "\xEF\xB7\x90";

// Whether a string anywhere in the value is one that `matches`.
bool AnyText(const Value& value, const std::function<bool(std::string_view)>& matches) {
  if (value.is_string()) return matches(value.text());
  if (value.is(Kind::kList)) {
    const auto& items = value.list().items;
    return std::any_of(items.begin(), items.end(),
                       [&](const Value& item) { return AnyText(item, matches); });
  }
  if (!value.is(Kind::kDict)) return false;
  const auto& entries = value.dict().entries();
  return std::any_of(entries.begin(), entries.end(), [&](const auto& entry) {
    return AnyText(entry.first, matches) || AnyText(entry.second, matches);
  });
}

bool AnyText(const ChatRecord& record, const std::function<bool(std::string_view)>& matches) {
  return std::any_of(record.messages.begin(), record.messages.end(),
                     [&](const Message& message) {
                       return AnyText(message.fields, matches) ||
                              AnyText(message.text_fields, matches);
                     }) ||
         AnyText(record.tools, matches) || AnyText(record.kwargs, matches);
}

}  // namespace

ContentGuard::ContentGuard(const std::vector<std::string>& markers, ChatRecord* record)
    : markers_(&markers) {
  for (const std::string& marker : markers) {
    if (firsts_.find(marker[0]) == std::string::npos) firsts_ += marker[0];
  }
  if (!AnyText(*record, [this](std::string_view text) { return HoldsMarker(text); })) return;
  do {
    sentinel_ += kNoncharacter;
  } while (AnyText(*record, [this](std::string_view text) {
    return text.find(sentinel_) != std::string_view::npos;
  }));
  for (Message& message : record->messages) {
    message.text = BrokenText(message.text);
    message.fields = Broken(message.fields);
    message.text_fields = Broken(message.text_fields);
  }
  record->tools = Broken(record->tools);
  record->kwargs = Broken(record->kwargs);
}

ByteRange ContentGuard::FindMarker(std::string_view text) const {
  for (size_t at = 0; (at = text.find_first_of(firsts_, at)) != std::string_view::npos; ++at) {
    const std::string_view rest = text.substr(at);
    size_t longest = 0;
    for (const std::string& marker : *markers_) {
      if (marker.size() > longest && rest.starts_with(marker)) longest = marker.size();
    }
    if (longest > 0) return {at, at + longest};
  }
  return {text.size(), text.size()};
}

bool ContentGuard::HoldsMarker(std::string_view text) const {
  return FindMarker(text).begin < text.size();
}

std::string ContentGuard::BrokenText(std::string_view text) const {
  std::string out;
  while (HoldsMarker(text)) {
    size_t at = FindMarker(text).begin + 1;
    while (at < text.size() && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) ++at;
    out.append(text.substr(0, at)).append(sentinel_);
    text.remove_prefix(at);
  }
  return out.append(text);
}

Value ContentGuard::Broken(const Value& value) const {
  if (!AnyText(value, [this](std::string_view text) { return HoldsMarker(text); })) return value;
  if (value.is_string()) return Value::Text(BrokenText(value.text()));
  if (value.is(Kind::kList)) {
    std::vector<Value> items;
    for (const Value& item : value.list().items) items.push_back(Broken(item));
    return jinja::MakeList(std::move(items));
  }
  auto dict = std::make_unique<jinja::Dict>();
  for (const auto& [key, item] : value.dict().entries()) dict->Set(Broken(key), Broken(item));
  return jinja::MakeDict(std::move(dict));
}

std::vector<size_t> ContentGuard::Clean(std::string* text, std::vector<ByteRange>* ranges) const {
  if (empty()) return {};
  std::vector<size_t> sentinels, seams;
  std::string clean;
  size_t begin = 0;
  for (size_t at; (at = text->find(sentinel_, begin)) != std::string::npos;) {
    clean.append(*text, begin, at - begin);
    sentinels.push_back(at);
    seams.push_back(clean.size());
    begin = at + sentinel_.size();
  }
  clean.append(*text, begin, std::string::npos);
  const auto moved = [&](size_t place) {
    const auto before = std::lower_bound(sentinels.begin(), sentinels.end(), place);
    return place - sentinel_.size() * static_cast<size_t>(before - sentinels.begin());
  };
  for (ByteRange& range : *ranges) range = {moved(range.begin), moved(range.end)};
  *text = std::move(clean);
  return seams;
}

}  // namespace coxswain::data
