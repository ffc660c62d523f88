#include "controller/cli/import/translation/foreign_config.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

#include "common/config/schema/value_reader.h"

namespace coxswain::job_import {

using config::Entry;
using config::Node;
using Json = nlohmann::ordered_json;

namespace {

std::string Lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

bool IsNullText(const std::string& text) {
  return text.empty() || text == "~" || Lower(text) == "null";
}

// 500_000 is a number to Python and none to us.
std::string NumberText(const std::string& text) {
  std::string digits = text;
  digits.erase(std::remove(digits.begin(), digits.end(), '_'), digits.end());
  return digits.size() == text.size() || config::IsNumber(digits) ? digits : text;
}

Node Scalar(std::string text, bool quoted) {
  Node node;
  node.kind = Node::Kind::kScalar;
  node.text = std::move(text);
  node.quoted = quoted;
  return node;
}

std::string NumberText(const Json& value) {
  return value.is_number_float() ? fmt::format("{}", value.get<double>()) : value.dump();
}

}  // namespace

const Entry* ForeignConfig::Find(std::string_view name) const {
  const Entry* found = nullptr;
  for (const Entry& entry : root_.entries) {
    if (entry.key == name) found = &entry;
  }
  return found;
}

bool ForeignConfig::Has(std::string_view name) const {
  const Entry* entry = Find(name);
  return entry != nullptr && entry->value.kind != Node::Kind::kNull;
}

const Node* ForeignConfig::Take(std::string_view name) {
  const Entry* entry = Find(name);
  if (entry == nullptr || entry->value.kind == Node::Kind::kNull) return nullptr;
  read_.insert(std::string(name));
  return &entry->value;
}

std::vector<const Entry*> ForeignConfig::Unread() const {
  std::vector<const Entry*> entries;
  for (const Entry& entry : root_.entries) {
    if (read_.count(entry.key) == 0 && Find(entry.key) == &entry) entries.push_back(&entry);
  }
  return entries;
}

std::string TextOf(const Node* node) {
  return node != nullptr && node->kind == Node::Kind::kScalar ? node->text : "";
}

bool IsOn(const Node* node) {
  const std::string text = Lower(TextOf(node));
  return text == "true" || text == "yes" || text == "on" || text == "1";
}

bool IsOff(const Node& node) {
  switch (node.kind) {
    case Node::Kind::kNull:
      return true;
    case Node::Kind::kList:
      return node.items.empty();
    case Node::Kind::kMap:
      return node.entries.empty();
    case Node::Kind::kScalar:
      break;
  }
  const std::string text = Lower(node.text);
  if (config::IsNumber(text)) return std::strtod(text.c_str(), nullptr) == 0;
  return text.empty() || text == "false" || text == "no" || text == "off" || text == "none";
}

std::optional<double> NumberOf(const Node* node) {
  const std::string text = NumberText(TextOf(node));
  if (!config::IsNumber(text)) return std::nullopt;
  return std::strtod(text.c_str(), nullptr);
}

std::vector<std::string> TextsOf(const Node* node) {
  if (node == nullptr) return {};
  if (node->kind == Node::Kind::kScalar) return {node->text};
  std::vector<std::string> texts;
  for (const Node& item : node->items) texts.push_back(TextOf(&item));
  return texts;
}

bool IsPlainName(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_';
  });
}

Json ToJson(const Node& node) {
  switch (node.kind) {
    case Node::Kind::kNull:
      return nullptr;
    case Node::Kind::kList: {
      Json list = Json::array();
      for (const Node& item : node.items) list.push_back(ToJson(item));
      return list;
    }
    case Node::Kind::kMap: {
      Json map = Json::object();
      for (const Entry& entry : node.entries) map[entry.key] = ToJson(entry.value);
      return map;
    }
    case Node::Kind::kScalar:
      break;
  }
  if (node.quoted) return node.text;
  if (config::IsBool(node.text)) return IsOn(&node);
  const std::string text = NumberText(node.text);
  if (!config::IsNumber(text)) return node.text;
  const double number = std::strtod(text.c_str(), nullptr);
  const bool whole = text.find_first_of(".eE") == std::string::npos;
  if (whole && std::abs(number) < 9e15) return static_cast<int64_t>(number);
  return number;
}

Node ToNode(const Json& value) {
  Node node;
  if (value.is_null()) return node;
  if (value.is_string()) {
    const std::string text = value.get<std::string>();
    return Scalar(text, config::IsNumber(text) || config::IsBool(text) || IsNullText(text));
  }
  if (value.is_boolean()) return Scalar(value.get<bool>() ? "true" : "false", false);
  if (value.is_number()) return Scalar(NumberText(value), false);
  node.kind = value.is_array() ? Node::Kind::kList : Node::Kind::kMap;
  for (const auto& [key, item] : value.items()) {
    if (value.is_array()) {
      node.items.push_back(ToNode(item));
    } else {
      node.entries.push_back({key, 0, ToNode(item)});
    }
  }
  return node;
}

std::string Shown(const Json& value) {
  std::string text = value.is_string()         ? value.get<std::string>()
                     : value.is_number_float() ? NumberText(value)
                                               : value.dump();
  std::replace(text.begin(), text.end(), '\n', ' ');
  if (text.size() <= 70) return text;
  size_t cut = 67;
  while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80) --cut;
  return text.substr(0, cut) + "...";
}

std::string Shown(const Node& node) {
  return node.kind == Node::Kind::kScalar ? Shown(Json(node.text)) : Shown(ToJson(node));
}

}  // namespace coxswain::job_import
