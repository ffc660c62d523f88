// YAML text as a tree that keeps what a schema needs and yaml-cpp's own nodes lose: the line of
// every key and value, duplicate keys, and whether a scalar was quoted.
#ifndef COXSWAIN_COMMON_CONFIG_YAML_TREE_H_
#define COXSWAIN_COMMON_CONFIG_YAML_TREE_H_

#include <cstddef>
#include <string>
#include <vector>

namespace coxswain::config {

struct Entry;

struct Node {
  enum class Kind { kNull, kScalar, kList, kMap };
  Kind kind = Kind::kNull;
  int line = 0;                // 1-based
  std::string text;            // scalar only
  bool quoted = false;         // scalar only: quoted, a block scalar or tagged !!str
  std::vector<Node> items;     // list only
  std::vector<Entry> entries;  // map only, in file order, duplicates kept
};

struct Entry {
  std::string key;
  int line = 0;  // of the key
  Node value;
};

struct YamlProblem {
  int line = 0;
  std::string message;
};

struct YamlTree {
  Node root;
  std::vector<YamlProblem> problems;  // not empty: the root is incomplete
};

// Exactly one document of at most 1 MiB. Of what anchors name and aliases repeat at most 100,000
// nodes and 16 MiB of text are copied; tags other than !!str, keys that are no scalars, tabs in
// indentation and a second document are problems.
YamlTree ParseYaml(const std::string& text);

// YAML text in flow style that parses to `root` with each node on its own line number again, so
// that messages about the text still point into the file it was read from.
std::string EmitYaml(const Node& root);

// YAML text in block style that parses to the same values: what people read.
std::string EmitBlockYaml(const Node& root);

}  // namespace coxswain::config

#endif  // COXSWAIN_COMMON_CONFIG_YAML_TREE_H_
