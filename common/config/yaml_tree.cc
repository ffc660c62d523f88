#include "common/config/yaml_tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <map>
#include <sstream>
#include <utility>

#include "common/outside_text.h"

namespace coxswain::config {
namespace {

constexpr size_t kMaxBytes = 1 << 20;

// What a value is made of, and how much of that anchors and aliases may copy.
struct Size {
  size_t nodes = 0;
  size_t bytes = 0;  // of text

  void operator+=(Size other) {
    nodes += other.nodes;
    bytes += other.bytes;
  }
};
constexpr Size kMaxCopied = {.nodes = 100000, .bytes = 16 << 20};

// Builds the tree bottom-up: a finished node is handed to the frame below it.
class TreeBuilder : public YAML::EventHandler {
 public:
  explicit TreeBuilder(YamlTree* tree) : tree_(tree) {}

  void OnDocumentStart(const YAML::Mark& mark) override { line_ = mark.line + 1; }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Deliver(Leaf(Node::Kind::kNull, mark), anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    auto found = anchors_.find(anchor);
    if (found == anchors_.end()) {
      if (!too_large_) Problem(mark, "an alias refers to the value that contains it");
      Deliver(Leaf(Node::Kind::kNull, mark), YAML::NullAnchor);
      return;
    }
    const Anchored& anchored = found->second;
    const bool fits = MayCopy(anchored.size, mark.line + 1);
    Deliver(fits ? anchored.node : Leaf(Node::Kind::kNull, mark), anchored.size, YAML::NullAnchor);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    Node node = Leaf(Node::Kind::kScalar, mark);
    node.text = value;
    node.quoted = tag == "!" || tag == "tag:yaml.org,2002:str";
    if (!node.quoted) CheckTag(mark, tag);
    Deliver(std::move(node), {1, value.size()}, anchor);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Open(Node::Kind::kList, mark, tag, anchor);
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Open(Node::Kind::kMap, mark, tag, anchor);
  }
  void OnMapEnd() override { Close(); }

  int line() const { return line_; }

 private:
  struct Frame {
    Node node = {};
    Size size = {1, 0};
    YAML::anchor_t anchor = YAML::NullAnchor;
    bool has_key = false;
    std::string key = {};
    int key_line = 0;
  };

  struct Anchored {
    Node node;
    Size size;
  };

  static Node Leaf(Node::Kind kind, const YAML::Mark& mark) {
    Node node;
    node.kind = kind;
    node.line = mark.line + 1;
    return node;
  }

  void Problem(const YAML::Mark& mark, std::string message) {
    tree_->problems.push_back({mark.line + 1, std::move(message)});
  }

  void CheckTag(const YAML::Mark& mark, const std::string& tag) {
    if (!tag.empty() && tag != "?") Problem(mark, "the tag " + tag + " is not supported");
  }

  void Open(Node::Kind kind, const YAML::Mark& mark, const std::string& tag,
            YAML::anchor_t anchor) {
    CheckTag(mark, tag);
    stack_.push_back({.node = Leaf(kind, mark), .anchor = anchor});
  }

  void Close() {
    Frame frame = std::move(stack_.back());
    stack_.pop_back();
    Deliver(std::move(frame.node), frame.size, frame.anchor);
  }

  // Whether one more copy of this size may be made; that none may is told once.
  bool MayCopy(Size size, int line) {
    if (too_large_) return false;
    copied_ += size;
    too_large_ = copied_.nodes > kMaxCopied.nodes || copied_.bytes > kMaxCopied.bytes;
    if (!too_large_) return true;
    tree_->problems.push_back({line, "anchors and aliases expand to " +
                                         std::to_string(copied_.nodes) + " values and " +
                                         std::to_string(copied_.bytes) +
                                         " bytes of text; at most 100000 and 16777216 are copied"});
    return false;
  }

  void Deliver(Node node, YAML::anchor_t anchor) { Deliver(std::move(node), {1, 0}, anchor); }
  void Deliver(Node node, Size size, YAML::anchor_t anchor) {
    // An anchored value is copied where it is named, and anchored values may hold each other.
    if (anchor != YAML::NullAnchor && MayCopy(size, node.line)) anchors_[anchor] = {node, size};
    if (stack_.empty()) {
      tree_->root = std::move(node);
      return;
    }
    Frame& top = stack_.back();
    top.size += size;
    if (top.node.kind == Node::Kind::kList) {
      top.node.items.push_back(std::move(node));
    } else if (!top.has_key) {
      if (node.kind != Node::Kind::kScalar) {
        tree_->problems.push_back({node.line, "a key must be a word"});
      }
      top.has_key = true;
      top.key = std::move(node.text);
      top.key_line = node.line;
    } else {
      // yaml-cpp marks an empty value at the token after it.
      if (node.kind == Node::Kind::kNull) node.line = top.key_line;
      top.node.entries.push_back({std::move(top.key), top.key_line, std::move(node)});
      top.has_key = false;
    }
  }

  YamlTree* tree_;
  std::vector<Frame> stack_;
  std::map<YAML::anchor_t, Anchored> anchors_;
  Size copied_;
  bool too_large_ = false;
  int line_ = 1;
};

// yaml-cpp reads some tabs as spaces and passes control characters and broken UTF-8 through.
void CheckBytes(const std::string& text, YamlTree* tree) {
  const size_t utf8 = Utf8Prefix(text);
  int line = 1;
  bool indentation = true;
  for (size_t i = 0; i < text.size(); ++i) {
    if (i == utf8) {
      tree->problems.push_back({line, "the text is not UTF-8"});
      return;
    }
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte == '\n') {
      ++line;
      indentation = true;
      continue;
    }
    if (byte == '\t' && indentation) {
      tree->problems.push_back({line, "tab in the indentation; YAML indents by spaces"});
      return;
    }
    if (byte < 0x20 && byte != '\t' && byte != '\r') {
      tree->problems.push_back({line, "control character in the text"});
      return;
    }
    if (byte != ' ') indentation = false;
  }
}

bool IsPlain(const std::string& text) {
  if (text.empty() || text[0] == '-' || text[0] == '~') {
    // "-5" stays plain; "-" and "- x" do not.
    if (text.size() < 2 || text[0] != '-' || text[1] == ' ' || text[1] == '-') return false;
  }
  for (char c : text) {
    const bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!word && c != '_' && c != '.' && c != '/' && c != '+' && c != '-') return false;
  }
  return true;
}

std::string Quote(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\r') {
      out += "\\r";
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string ScalarText(const Node& node) {
  return !node.quoted && IsPlain(node.text) ? node.text : Quote(node.text);
}

bool IsBlock(const Node& node) { return !node.items.empty() || !node.entries.empty(); }

std::string InlineText(const Node& node) {
  switch (node.kind) {
    case Node::Kind::kNull:
      return "null";
    case Node::Kind::kScalar:
      return ScalarText(node);
    case Node::Kind::kList:
      return "[]";
    case Node::Kind::kMap:
      return "{}";
  }
  return "";
}

// Lines of a list or map that is not empty, each behind `indent` spaces.
std::string BlockText(const Node& node, size_t indent) {
  const std::string margin(indent, ' ');
  std::string text;
  for (const Entry& entry : node.entries) {
    text.append(margin).append(IsPlain(entry.key) ? entry.key : Quote(entry.key));
    if (IsBlock(entry.value)) {
      text.append(":\n").append(BlockText(entry.value, indent + 2));
    } else {
      text.append(": ").append(InlineText(entry.value)).append("\n");
    }
  }
  for (const Node& item : node.items) {
    text.append(margin).append("- ");
    if (IsBlock(item)) {
      text.append(BlockText(item, indent + 2), indent + 2);
    } else {
      text.append(InlineText(item)).append("\n");
    }
  }
  return text;
}

class Emitter {
 public:
  void Emit(const Node& node) {
    MoveTo(node.line);
    switch (node.kind) {
      case Node::Kind::kNull:
        out_ += "null";
        break;
      case Node::Kind::kScalar:
        out_ += ScalarText(node);
        break;
      case Node::Kind::kList:
        out_ += "[";
        for (size_t i = 0; i < node.items.size(); ++i) {
          if (i > 0) out_ += ", ";
          Emit(node.items[i]);
        }
        out_ += "]";
        break;
      case Node::Kind::kMap:
        out_ += "{";
        for (size_t i = 0; i < node.entries.size(); ++i) {
          if (i > 0) out_ += ", ";
          MoveTo(node.entries[i].line);
          out_ += Quote(node.entries[i].key) + ": ";
          Emit(node.entries[i].value);
        }
        out_ += "}";
        break;
    }
  }
  std::string Take() { return std::move(out_) + "\n"; }

 private:
  void MoveTo(int line) {
    for (; line_ < line; ++line_) out_ += "\n ";
  }

  std::string out_;
  int line_ = 1;
};

}  // namespace

YamlTree ParseYaml(const std::string& text) {
  YamlTree tree;
  if (text.size() > kMaxBytes) {
    tree.problems.push_back({0, "the file has " + std::to_string(text.size()) +
                                    " bytes; a job file has at most 1048576"});
    return tree;
  }
  CheckBytes(text, &tree);
  if (!tree.problems.empty()) return tree;
  try {
    // yaml-cpp closes an open quote at a line feed before the end of the text, but not at the end.
    std::istringstream stream(text.substr(0, text.find_last_not_of(" \r\n") + 1));
    YAML::Parser parser(stream);
    TreeBuilder builder(&tree);
    if (!parser.HandleNextDocument(builder)) {
      tree.problems.push_back({1, "the file is empty"});
      return tree;
    }
    YamlTree rest;
    TreeBuilder second(&rest);
    if (parser.HandleNextDocument(second)) {
      tree.problems.push_back({second.line(), "a second document; a job file holds one"});
    }
  } catch (const YAML::Exception& e) {
    tree.problems.push_back({e.mark.line + 1, "not YAML: " + e.msg});
  }
  return tree;
}

std::string EmitBlockYaml(const Node& root) {
  return IsBlock(root) ? BlockText(root, 0) : InlineText(root).append("\n");
}

std::string EmitYaml(const Node& root) {
  Emitter emitter;
  emitter.Emit(root);
  return emitter.Take();
}

}  // namespace coxswain::config
