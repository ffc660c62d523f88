#include "controller/data/templates/content_guard.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "controller/data/jinja/containers.h"

namespace coxswain::data {
namespace {

using jinja::Kind;
using jinja::Value;

// U+FDD0, one of the noncharacters that no text is made of.
constexpr std::string_view kSentinel = "\xEF\xB7\x90";

}  // namespace

ContentGuard::ContentGuard(const std::vector<std::string>& markers, ChatRecord* record)
    : markers_(&markers) {
  for (const std::string& marker : markers) {
    if (firsts_.find(marker[0]) == std::string::npos) firsts_ += marker[0];
  }
  const bool found =
      std::any_of(record->messages.begin(), record->messages.end(),
                  [this](const Message& message) { return Holds(message.fields); }) ||
      Holds(record->tools) || Holds(record->kwargs);
  if (!found) return;
  sentinel_ = kSentinel;
  for (Message& message : record->messages) message.fields = Broken(message.fields);
  record->tools = Broken(record->tools);
  record->kwargs = Broken(record->kwargs);
}

size_t ContentGuard::FindMarker(std::string_view text) const {
  for (size_t at = 0; (at = text.find_first_of(firsts_, at)) != std::string_view::npos; ++at) {
    const std::string_view rest = text.substr(at);
    const bool found = std::any_of(markers_->begin(), markers_->end(),
                                   [&](const auto& marker) { return rest.starts_with(marker); });
    if (found) return at;
  }
  return std::string_view::npos;
}

bool ContentGuard::Holds(const Value& value) const {
  if (value.is_string()) return FindMarker(value.text()) != std::string_view::npos;
  if (value.is(Kind::kList)) {
    const auto& items = value.list().items;
    return std::any_of(items.begin(), items.end(), [this](const Value& v) { return Holds(v); });
  }
  if (!value.is(Kind::kDict)) return false;
  const auto& entries = value.dict().entries();
  return std::any_of(entries.begin(), entries.end(), [this](const auto& entry) {
    return Holds(entry.first) || Holds(entry.second);
  });
}

std::string ContentGuard::BrokenText(std::string_view text) const {
  std::string out;
  while (true) {
    const size_t at = FindMarker(text);
    if (at == std::string_view::npos) break;
    out.append(text.substr(0, at + 1)).append(sentinel_);
    text.remove_prefix(at + 1);
  }
  return out.append(text);
}

Value ContentGuard::Broken(const Value& value) const {
  if (!Holds(value)) return value;
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
  std::vector<size_t> cuts;
  if (empty()) return cuts;
  std::vector<size_t> sentinels;
  std::string clean;
  size_t begin = 0;
  for (size_t at; (at = text->find(sentinel_, begin)) != std::string::npos;) {
    clean.append(*text, begin, at - begin);
    cuts.push_back(clean.size());
    sentinels.push_back(at);
    begin = at + sentinel_.size();
  }
  clean.append(*text, begin, std::string::npos);
  const auto moved = [&](size_t place) {
    const auto before = std::lower_bound(sentinels.begin(), sentinels.end(), place);
    return place - sentinel_.size() * static_cast<size_t>(before - sentinels.begin());
  };
  for (ByteRange& range : *ranges) range = {moved(range.begin), moved(range.end)};
  *text = std::move(clean);
  return cuts;
}

}  // namespace coxswain::data
